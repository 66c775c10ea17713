-- TeX mathematics as Typst writes it: pandoc's translation, mended where it is not what TeX shows.

-- Before pandoc reads it: names for what it would confuse.
local function prepare(tex)
  tex = tex:gsub('\\|', '\\Vert ')                                  -- else a relation, with spaces
  tex = tex:gsub('{,}', '\\text{,}')                                -- 1{,}024 has no space
  tex = tex:gsub('\\operatorname%*%s*{', '\\operatorname{LIMITS ')  -- else the star is forgotten
  return tex
end

local function operator(before, name)
  if before == '(' or not name:find('^%a') then return nil end      -- upright("if"), delim: "["
  local limits = name:match('^LIMITS%s*(.*)$')
  if limits then return before .. 'op("' .. limits .. '", limits: #true)' end
  return before .. 'op("' .. name .. '")'
end

local function delimiter(percent, fence)
  return 'stretch(' .. fence .. ', size: #' .. percent / 100 .. 'em)'
end

local MENDED = {
  {'#h%(%-1em%)', '#h(-0.1667em)'},                                 -- \!
  {'#h%(0em%)', 'thick'},                                           -- \;
  {'#scale%(x: (%d+)%%, y: %d+%%%)%[(.-)%]%f[^%]]', delimiter},     -- \Big(
  {'lr%(bar%.v%.double (.-) bar%.v%.double%)', 'norm(%1)'},         -- \lVert x \rVert
  {'∥(.-)∥', 'norm(%1)'},                                           -- \left\| x \right\|
  {'bar%.v%.double', 'class("normal", ‖)'},                         -- \| x \|
  {'%f[\\]\\|', 'class("normal", |)'},                              -- |x|
  {' ?upright%(","%) ?', '","'},                                    -- 1{,}024
  {'cases%b()', function(cases) return (cases:gsub(' & ', ' quad & ')) end},
  {'%.circle%f[%W]', '.o'},
  {'%f[%w]sect%f[%W]', 'inter'},
  {'(.?)"([^"]*)"', operator},                                      -- \operatorname{elu}
}

local function escape(text)
  return '"' .. text:gsub('\\', '\\\\'):gsub('"', '\\"'):gsub('%s+', ' ') .. '"'
end

-- The formula, with its TeX as alternative text for readers who cannot see it.
local function equation(math, id, number)
  local plain = pandoc.Pandoc {pandoc.Plain {pandoc.Math(math.mathtype, prepare(math.text))}}
  local text = pandoc.write(plain, 'typst', {wrap_text = 'wrap-none'}):gsub('%s+$', '')
  if text:find('^\\%$') then error('\npandoc cannot read "' .. math.text .. '".\n', 0) end
  local bars = math.text:find('\\begin{vmatrix}') and '|' or '‖'
  text = text:gsub('delim: "||"', 'delim: "' .. bars .. '"')
  for _, entry in ipairs(MENDED) do text = text:gsub(entry[1], entry[2]) end
  local block = tostring(math.mathtype == 'DisplayMath')
  local numbering = number and '(..) => "(' .. number .. ')"' or 'none'
  return '#math.equation(block: ' .. block .. ', alt: ' .. escape(math.text)
    .. ', numbering: ' .. numbering .. ', ' .. text .. ')' .. (id and ' <' .. id .. '>' or ';')
end

return {equation = equation, escape = escape}
