-- The document as Typst markup: calls of what article.typ defines.

local folder = pandoc.path.directory(PANDOC_SCRIPT_FILE)
local math = dofile(pandoc.path.join {folder, 'math.lua'})
local text = pandoc.utils.stringify

local function raw(markup) return pandoc.RawBlock('typst', markup) end

-- Blocks as Typst content: [...].
local function content(blocks)
  local markup = pandoc.write(pandoc.Pandoc(blocks), 'typst-citations', {wrap_text = 'wrap-none'})
  return '[' .. markup:gsub('%s+$', '') .. ']'
end

local function array(items)
  return '(' .. table.concat(items:map(function(item) return item .. ', ' end)) .. ')'
end

-- Figures, tables, listings: what stands under or above the caption --------------------------

local body = {}

function body.figure(div)
  local alt = math.escape(text(div.content[2]))
  return 'picture("' .. div.identifier .. '.svg", ' .. div.attributes.width .. ', ' .. alt .. ')'
end

local ALIGN = {
  AlignLeft = 'left', AlignRight = 'right', AlignCenter = 'center', AlignDefault = 'left',
}

local function cells_of(row)
  return row.cells:map(function(cell) return content(cell.contents) end)
end

-- The longest word of a column, as content: it cannot be narrower than that.
local function longest_word(rows, column)
  local length, longest = 0, '[]'
  local function measure(make, scale)
    return function(element)
      local new = pandoc.text.len(element.text) * scale
      if new <= length then return end
      length, longest = new, make .. '(' .. math.escape(element.text) .. ')'
    end
  end
  for _, row in ipairs(rows) do
    local cell = pandoc.Div(row.cells[column].contents)
    cell:walk {Str = measure('text', 1), Code = measure('raw', 1.2)}
  end
  return longest
end

local function booktabs(element)
  local head, rows = element.head.rows, element.bodies[1].body
  local all, aligns, words = pandoc.List(head) .. rows, pandoc.List {}, pandoc.List {}
  for i, spec in ipairs(element.colspecs) do
    aligns:insert(ALIGN[spec[1]])
    words:insert(longest_word(spec[1] == 'AlignRight' and head or all, i))
  end
  return 'booktabs(' .. table.concat({
    array(aligns), array(words), array(cells_of(head[1])),
    array(rows:map(function(row) return array(cells_of(row)) end)),
  }, ', ') .. ')'
end

function body.table(div) return booktabs(div.content[3]) end

function body.listing(div) return content {div.content[3]} end

local function float(div)
  local kind = div.classes[2]
  return raw('#numbered("' .. kind .. '", "' .. div.attributes.number .. '", '
    .. content(div.content[1].content) .. ', ' .. body[kind](div) .. ') <' .. div.identifier .. '>')
end

-- The rest ----------------------------------------------------------------------------------

local function header(element)
  local number = element.attributes.number
  local shown = number and '(..) => "' .. number .. '"' or 'none'
  local before = element.identifier == 'references' and '#place.flush()\n' or ''
  return raw(before .. '#heading(level: ' .. element.level .. ', numbering: ' .. shown .. ')'
    .. content {pandoc.Plain(element.content)} .. ' <' .. element.identifier .. '>')
end

local function division(div)
  if div.classes:includes('float') then return float(div) end
  if div.classes:includes('cell') then return div.content end
  if div.classes:includes('summary') then return raw('#summary' .. content(div.content)) end
  if div.classes:includes('appendix') then return raw('#appendix()') end
  if div.identifier == 'refs' then return raw('#references' .. content(div.content)) end
end

local function tagged(span)
  if not span.classes:includes('equation') then return end
  local markup = math.equation(span.content[1], span.identifier, span.attributes.number)
  return pandoc.RawInline('typst', markup), false
end

-- Typst would take an apostrophe after a digit for a prime.
local function apostrophe(str)
  local before, after = str.text:match('^(.*%d)’(.*)$')
  if before then return {pandoc.Str(before), pandoc.RawInline('typst', '’'), pandoc.Str(after)} end
end

local function untagged(element) return pandoc.RawInline('typst', math.equation(element)) end

-- The PDF's own metadata are strings, without markup.
local function metadata(meta)
  local function strings(items)
    local escaped = pandoc.List(items or {}):map(function(item) return math.escape(text(item)) end)
    return pandoc.RawInline('typst', array(escaped))
  end
  local function name(author) return author.name end
  meta['author-names'] = strings(pandoc.List(meta.authors):map(name))
  meta['keyword-names'] = strings(meta.keywords)
  return meta
end

return {
  {traverse = 'topdown', Span = tagged, Math = untagged, Str = apostrophe},
  {Div = division, Header = header, Meta = metadata},
  {Table = function(element) return raw('#align(center, ' .. booktabs(element) .. ')') end},
}
