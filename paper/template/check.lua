-- Stops the build, naming every place, when the text holds what a report must not hold: a value
-- that is none, a question left open, or TeX and HTML that pandoc would drop without a word.

local folder = pandoc.path.directory(PANDOC_SCRIPT_FILE)
local problems = dofile(pandoc.path.join {folder, 'problems.lua'})
local problem = problems.add

-- Values ------------------------------------------------------------------------------------

local NO_VALUES = {'nan', 'NaN', 'inf', 'None', 'NaT'}

-- The first word of a text that says that a value is missing. TeX's \inf is not one, nor is
-- "infinity". "None" is forbidden as an English word too: it cannot be told from Python's.
local function no_value(text)
  if text:find('??', 1, true) then return '??' end
  if text:find('<NA>', 1, true) then return '<NA>' end
  for _, word in ipairs(NO_VALUES) do
    if text:find('%f[%w_\\]' .. word .. '%f[^%w_]') then return word end
  end
end

local function check_value(text, around)
  local found = no_value(text)
  if found and not text:find('://', 1, true) then
    problem('"' .. found .. '" in "' .. around .. '". Compute a value, or write of it as `'
      .. found .. '`.')
  end
end

-- Mathematics -------------------------------------------------------------------------------

local ENVIRONMENTS = pandoc.List {
  'aligned', 'gathered', 'split', 'cases', 'pmatrix', 'bmatrix', 'Bmatrix', 'vmatrix', 'Vmatrix',
}

local DROPPED = {
  ['\\label'] = 'Write \\tag{6}, and [Equation](#eq-6) in the text.',
  ['\\ref'] = 'Write [Equation](#eq-6) in the text.',
  ['\\eqref'] = 'Write [Equation](#eq-6) in the text.',
  ['\\color'] = 'Mathematics is black.',
  ['\\boxed'] = 'Write it without a frame.',
  ['\\left.'] = 'Write \\Big| for a single bar.',
  ['\\&'] = 'Write \\text{and}.',
}

local function check_macro(macro, text)
  local instead = DROPPED[macro]
  if instead then problem(macro .. ' in "' .. text .. '" would be lost. ' .. instead) end
end

local function check_math(math)
  for name in math.text:gmatch('\\begin%s*{(.-)}') do
    if not ENVIRONMENTS:includes(name) then
      problem('the environment ' .. name .. ' in "' .. math.text .. '" is not kept by all formats. '
        .. 'Choose among ' .. table.concat(ENVIRONMENTS, ', ') .. '.')
    end
  end
  local without_line_ends = math.text:gsub('\\\\', ' ')
  for macro in without_line_ends:gmatch('\\[%a&]+%.?') do check_macro(macro, math.text) end
  local _, tags = math.text:gsub('\\tag', '')
  if tags > 1 or (tags == 1 and math.mathtype == 'InlineMath') then
    problem('one \\tag belongs to one displayed equation: "' .. math.text .. '".')
  end
  check_value(math.text, math.text)
end

-- Raw TeX and HTML --------------------------------------------------------------------------

local function check_raw(raw)
  if raw.text:find('^<!%-%-') then return {} end
  if raw.t == 'RawInline' and raw.text:find('^<br ?/?>$') then return pandoc.LineBreak() end
  local instead = raw.text:find('^\\begin') and 'Put it between $$ and $$, with aligned for align.'
    or raw.text:find('^\\%a*ref') and 'Write a link such as [Equation](#eq-6).'
    or 'Write Markdown.'
  problem('raw ' .. raw.format .. ' would be lost: "' .. raw.text .. '". ' .. instead)
end

-- The walk ----------------------------------------------------------------------------------

local function check_words(block)
  local around = pandoc.utils.stringify(block)
  if #around > 120 then around = around:sub(1, 120) .. ' …' end
  block:walk {Str = function(str) check_value(str.text, around) end}
end

local checks = {
  traverse = 'topdown',
  Div = function(div)
    problems.enter(div)
    if div.classes:includes('figure') and not div.content[2].content[1] then
      problem('the figure ' .. div.identifier .. ' has no alternative text.')
    end
  end,
  Para = check_words,
  Plain = check_words,
  Header = check_words,
  Math = check_math,
  RawInline = check_raw,
  RawBlock = check_raw,
  Image = function(image)
    problem('the picture ' .. image.src .. ' needs a number. Show it by show.figure.')
  end,
}

function Pandoc(doc)
  doc = doc:walk(checks)
  problems.stop_if_any()
  return doc
end
