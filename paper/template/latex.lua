-- The document as LaTeX, which counts by itself; article.tex defines what is named here.

local text = pandoc.utils.stringify
local WIDEST = 95  -- letters of a line of a table

local function raw(tex) return pandoc.RawBlock('latex', tex) end
local function inline(tex) return pandoc.RawInline('latex', tex) end

local function latex(blocks)
  return (pandoc.write(pandoc.Pandoc(blocks), 'latex', {wrap_text = 'wrap-none'}):gsub('%s+$', ''))
end

local function label(div)
  return '\\caption{' .. latex(div.content[1].content) .. '}\\label{' .. div.identifier .. '}'
end

-- Figures, tables, listings ------------------------------------------------------------------

local float = {}

function float.figure(div, meta)
  local file = text(meta.figures) .. '/' .. div.identifier .. '.pdf'
  local options = 'width=' .. div.attributes.width .. ',alt={' .. latex(div.content[2].content) .. '}'
  return raw('\\begin{figure}[tbp]\n\\centering\n\\includegraphics[' .. options .. ']{' .. file .. '}\n'
    .. label(div) .. '\n\\end{figure}')
end

-- The longest cell of a column and its longest word, in letters.
local function lengths(element, column)
  local cell, word = 0, 0
  for _, row in ipairs(element.head.rows .. element.bodies[1].body) do
    local words = text(row.cells[column].contents)
    cell = math.max(cell, pandoc.text.len(words))
    for part in words:gmatch('%S+') do word = math.max(word, pandoc.text.len(part)) end
  end
  return cell, word
end

-- Columns that do not fit beside each other share the line: longer cells have more of it.
local function fit(element)
  local letters, sum, weights = 0, 0, {}
  for i in ipairs(element.colspecs) do
    local cell, word = lengths(element, i)
    weights[i] = word + 3 * math.sqrt(cell)
    letters, sum = letters + cell, sum + weights[i]
  end
  if letters > WIDEST then
    local function narrow(spec, i) return {spec[1], weights[i] / sum} end
    element.colspecs = element.colspecs:map(narrow)
  end
  return element
end

function float.table(div)
  local element = fit(div.content[3])
  element.caption = {long = div.content[1].content}
  element.identifier = div.identifier
  return element
end

function float.listing(div)
  return {raw('{\\captionsetup{type=listing}' .. label(div) .. '}\\nopagebreak'), div.content[3]}
end

-- The rest ----------------------------------------------------------------------------------

local function division(meta)
  return function(div)
    if div.classes:includes('float') then return float[div.classes[2]](div, meta) end
    if div.classes:includes('cell') then return div.content end
    if div.classes:includes('appendix') then return raw('\\supplement') end
    if div.classes:includes('summary') then
      return pandoc.List {raw('\\begin{summary}')} .. div.content .. {raw('\\end{summary}')}
    end
  end
end

local function header(element)
  if not element.attributes.number then element.classes:insert('unnumbered') end
  element.attributes.number = nil
  if element.identifier == 'references' then return {raw('\\FloatBarrier'), element} end
  return element
end

local function reference(link)
  if not link.classes:includes('reference') then return end
  local id, word = link.target:sub(2), text(link.content):match('^(.-)\u{a0}')
  local number = id:find('^eq%-') and '(\\ref*{' .. id .. '})' or '\\ref*{' .. id .. '}'
  return inline('\\hyperref[' .. id .. ']{' .. word .. '~' .. number .. '}')
end

local function equation(span)
  if not span.classes:includes('equation') then return end
  local tex = span.content[1].text:gsub('^%s+', ''):gsub('%s+$', '')
  return inline('\\begin{equation}\\label{' .. span.identifier .. '}'
    .. '\\tag{' .. span.attributes.number .. '}\n' .. tex .. '\n\\end{equation}')
end

local function authors(meta)
  meta.author = pandoc.List(meta.authors):map(function(author)
    if not author.affiliation then return author.name end
    return author.name .. {inline('\\\\ \\small ')} .. author.affiliation
  end)
  return meta
end

function Pandoc(doc)
  doc.meta = authors(doc.meta)
  return doc
    :walk {Link = reference, Span = equation, Header = header}
    :walk {Div = division(doc.meta)}
end
