-- Gives every section, figure, table, listing and tagged equation its number, and turns
-- [Figure](#fig-growth) into "Figure 3". All formats take their numbers from here, and know from
-- here where a line must not end.

local WORDS = {
  section = {'Section', 'Sections', 'Sec.', 'Appendix', 'Appendices'},
  figure = {'Figure', 'Figures', 'Fig.', 'Figs.'},
  table = {'Table', 'Tables'},
  listing = {'Listing', 'Listings'},
  equation = {'Equation', 'Equations', 'Eq.', 'Eqs.'},
}
local KIND_OF = {}
for kind, words in pairs(WORDS) do
  for _, word in ipairs(words) do KIND_OF[word] = kind end
end

local folder = pandoc.path.directory(PANDOC_SCRIPT_FILE)
local problems = dofile(pandoc.path.join {folder, 'problems.lua'})
local problem = problems.add
local places = {}
local counts, in_appendix = {}, false

local function remember(id, kind, number)
  if id == '' then return end
  if places[id] then problem('the id ' .. id .. ' is there twice. Choose another.') end
  places[id] = {kind = kind, number = number}
end

-- Numbers -----------------------------------------------------------------------------------

local sections = {0, 0, 0}

local function section_number(level)
  sections[level] = sections[level] + 1
  for deeper = level + 1, #sections do sections[deeper] = 0 end
  local first = in_appendix and string.char(64 + sections[1]) or tostring(sections[1])
  return table.concat({first, table.unpack(sections, 2, level)}, '.')
end

local function number_header(header)
  local plain = header.classes:includes('unnumbered') or header.level > 2
  if not plain then header.attributes.number = section_number(header.level) end
  remember(header.identifier, 'section', header.attributes.number)
  return header
end

local function number_float(div)
  local kind = div.classes[2]
  counts[kind] = (counts[kind] or 0) + 1
  div.attributes.number = (in_appendix and 'S' or '') .. counts[kind]
  remember(div.identifier, kind, div.attributes.number)
  return div
end

-- An equation's number is the paper's, by \tag; without one it has none.
local function number_equation(math)
  local tag = math.text:match('\\tag%*?%s*{(.-)}')
  if not tag then return end
  if not tag:find('^[%w.]+$') then return problem('\\tag{' .. tag .. '} is not a number.') end
  math.text = math.text:gsub('%s*\\tag%*?%s*{.-}', '')
  remember('eq-' .. tag, 'equation', tag)
  return pandoc.Span({math}, pandoc.Attr('eq-' .. tag, {'equation'}, {number = tag})), false
end

-- The headings of the summary have no numbers; its title is added where it has none.
local function summary(div)
  local has_title = false
  div = div:walk {Header = function(header)
    has_title = has_title or header.level == 1
    header.classes:insert('unnumbered')
    return header
  end}
  if not has_title then
    local attributes = pandoc.Attr('summary', {'unnumbered'})
    div.content:insert(1, pandoc.Header(1, 'Reproducibility summary', attributes))
  end
  return div
end

local number = {
  traverse = 'topdown',
  Header = number_header,
  Math = number_equation,
  Div = function(div)
    problems.enter(div)
    if div.classes:includes('float') then return number_float(div) end
    if div.classes:includes('summary') then return summary(div) end
    if div.classes:includes('appendix') then in_appendix, sections, counts = true, {0, 0, 0}, {} end
  end,
}

-- References --------------------------------------------------------------------------------

local function refer(link)
  local id = link.target:match('^#(.+)$')
  if not id then return end
  local place, word = places[id], pandoc.utils.stringify(link.content)
  if not place then return problem('[' .. word .. '](#' .. id .. ') points nowhere.') end
  local kind = KIND_OF[word]
  if not kind then return end
  if kind ~= place.kind or not place.number then
    return problem('[' .. word .. '](#' .. id .. ') points at ' ..
      (place.number and 'a ' .. place.kind or 'what has no number') .. '.')
  end
  local shown = kind == 'equation' and '(' .. place.number .. ')' or place.number
  link.content = {pandoc.Str(word .. '\u{a0}' .. shown)}
  link.classes:insert('reference')
  return link
end

local refer_all = {
  traverse = 'topdown',
  Div = function(div) problems.enter(div) end,
  Link = refer,
}

-- Lines -------------------------------------------------------------------------------------

-- No line ends within "95 %", "2 ×" or "N = 64".
local function belong_together(before, after)
  if not before or not after then return false end
  if before.text == '=' or after.text == '=' then return true end
  local unit = after.t == 'Str' and (after.text:find('^%%') or after.text:find('^×'))
  return unit and before.t == 'Str' and before.text:find('%d$')
end

local function keep_together(inlines)
  for i, element in ipairs(inlines) do
    local space = element.t == 'Space' or element.t == 'SoftBreak'
    if space and belong_together(inlines[i - 1], inlines[i + 1]) then
      inlines[i] = pandoc.Str('\u{a0}')
    end
  end
  return inlines
end

local lines = {Para = function(para) return para:walk {Inlines = keep_together} end}

-- The list of references stands at the end, or before the appendix.
local function add_references(blocks)
  local at = #blocks + 1
  for i, block in ipairs(blocks) do
    if block.t == 'Div' and block.classes:includes('appendix') then at = i; break end
  end
  blocks:insert(at, pandoc.Div({}, pandoc.Attr('refs')))
  blocks:insert(at, pandoc.Header(1, 'References', pandoc.Attr('references', {'unnumbered'})))
end

function Pandoc(doc)
  add_references(doc.blocks)
  doc = doc:walk(number):walk(refer_all):walk(lines)
  problems.stop_if_any()
  return doc
end
