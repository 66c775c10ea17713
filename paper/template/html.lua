-- The document as HTML: what article.css gives its look.

local WORDS = {figure = 'Figure', table = 'Table', listing = 'Listing'}

local function raw(html) return pandoc.RawBlock('html', html) end

local function caption(div)
  local label = pandoc.Strong {WORDS[div.classes[2]] .. '\u{a0}' .. div.attributes.number .. '.'}
  local inlines = pandoc.utils.blocks_to_inlines(div.content[1].content)
  local words = pandoc.Plain {label, pandoc.Space(), table.unpack(inlines)}
  return pandoc.List {raw('<figcaption>'), words, raw('</figcaption>')}
end

local function picture(div)
  local style = 'width:' .. div.attributes.width
  local image = pandoc.Image({}, div.identifier .. '.svg', '', {style = style})
  image.attributes.alt = pandoc.utils.stringify(div.content[2])
  return pandoc.Plain {image}
end

local function body(div)
  local kind = div.classes[2]
  if kind == 'figure' then return picture(div) end
  return pandoc.Div({div.content[3]}, {class = 'wide'})
end

local function float(div)
  local kind = div.classes[2]
  local all = pandoc.List {raw('<figure id="' .. div.identifier .. '" class="' .. kind .. '">')}
  local parts = {caption(div), pandoc.List {body(div)}}
  if kind == 'figure' then parts = {parts[2], parts[1]} end
  return all .. parts[1] .. parts[2] .. {raw('</figure>')}
end

local function division(div)
  if div.classes:includes('float') then return float(div) end
  if div.classes:includes('cell') then return div.content end
  if div.classes:includes('appendix') then return {} end
end

local function header(element)
  if not element.attributes.number then return end
  local number = pandoc.Span({element.attributes.number}, {class = 'number'})
  element.content = pandoc.List {number, pandoc.Space()} .. element.content
  element.attributes.number = nil
  return element
end

local function equation(span)
  if not span.classes:includes('equation') then return end
  span.content:insert(pandoc.Span({'(' .. span.attributes.number .. ')'}, {class = 'number'}))
  span.attributes.number = nil
  return span
end

return {{Div = division, Header = header, Span = equation}}
