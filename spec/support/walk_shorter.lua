-- The shortest way to a difference between two stores: calls are left out as long as there still is one.
--
--   local list, fault = shorter.list(list, fault, 600, function(part) return walk.along(pair, part) end)
--   shorter.script(pair, fault)      the calls as a script for `synod run`

local bodies = require "spec.support.walk_bodies"

local shorter = {}

local function without(list, from, to)
  local rest = table.move(list, 1, from - 1, 1, {})
  return table.move(list, to + 1, #list, #rest + 1, rest)
end

--- Leaves out ever smaller parts as long as the stores still differ (ddmin).
---@param list table[]
---@param fault table
---@param most integer  walks
---@param along fun(list: table[]): table|nil  walks again, and gives where the stores differ
---@return table[] list, table fault
function shorter.list(list, fault, most, along)
  list = table.move(list, 1, fault.step, 1, {})
  local size, trials = (#list + 1) // 2, 0
  while size >= 1 and trials < most do
    local left_out, from = false, 1
    while from <= #list and trials < most do
      local part = without(list, from, math.min(from + size - 1, #list))
      local found = #part > 0 and along(part)
      trials = trials + 1
      if found then
        list, fault, left_out = table.move(part, 1, found.step, 1, {}), found, true
      else
        from = from + size
      end
    end
    if size > 1 then size = size // 2 elseif not left_out then break end
  end
  return list, fault
end

local SCRIPT = [[
-- synod run SCRIPT embedded:PATH, or a connection string. The last answer differs:
--   %s
--   %s
local synod = require "synod"
local s, r = {}, {}
for i = 1, 3 do s[i] = assert(synod.open(arg[1])) end
local function text(v)
  if type(v) ~= "table" then return tostring(v) end
  local words = {}
  for name, value in pairs(v) do words[#words + 1] = name .. "=" .. text(value) end
  return v.code and tostring(v) or "{" .. table.concat(words, " ") .. "}"
end
local function show(step, ...)
  print(step, text((...)), text((select(2, ...))))
  return { ... }
end
local function all(step, place, method, ...)
  local found = {}
  for item in place[method](place, ...) do found[#found + 1] = item end
  return show(step, found)
end
%s%s
]]

local function said(which, pair, fault) return pair[which].name .. " " .. fault.texts[which]:gsub("\n", " ") end

---@param pair table
---@param fault table
---@return string
function shorter.script(pair, fault)
  return SCRIPT:format(said(1, pair, fault), said(2, pair, fault), bodies.SOURCE, table.concat(fault.lines, "\n"))
end

return shorter
