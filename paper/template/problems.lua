-- Problems are collected with the cell that they are in, and then told all at once.

local problems, cell = {}, '?'

local function enter(div) cell = div.attributes.cell or cell end

local function add(text) table.insert(problems, 'cell ' .. cell .. ': ' .. text) end

local function stop_if_any()
  if #problems > 0 then error('\n' .. table.concat(problems, '\n') .. '\n', 0) end
end

return {enter = enter, add = add, stop_if_any = stop_if_any}
