-- What ends when, in a walk: leases, breaks, what is hidden, messages. A walk sleeps up to such instants, and on a real
-- clock makes no call while one comes.
--
--   local ends = require("spec.support.walk_ends").new(live)
--   ends:sleep(call)                a line of a script, or nil when there is nothing to wait for
--   ends:keep_clear(call)           before a call on a real clock
--   ends:crossed(call, begun)       was it too late for that to have been of use?
--   ends:note(call, begun)          after a call

local calls = require "spec.support.walk_calls"
local core = require "synod.core"

local LOOK_AHEAD_S = 0.6 -- a real wait is not longer
local MARGIN_S = 0.04    -- from a real call to the next end

local ends = {}

---@class spec.Ends
---@field live boolean
---@field list table[]  spans of milliseconds: from, to, and where
local ends_type = {}
ends_type.__index = ends_type

---@param live boolean|nil  real waits are short
---@return spec.Ends
function ends.new(live)
  return setmetatable({ live = live, list = {} }, ends_type)
end

--- Instants are in milliseconds.
function ends.now() return math.floor(core.now() * 1000 + 0.5) end

--- The seconds after which something may end that the call has begun.
local function spans(call)
  local list = {}
  for _, value in ipairs { call.args[1] or false, call.args[2] or false } do
    if type(value) == "number" and call.method == "break_lease" then list[#list + 1] = value end
    if type(value) == "table" then
      for _, name in ipairs { "duration", "visibility", "delay", "ttl" } do list[#list + 1] = value[name] end
    end
  end
  if call.method == "renew" then table.move(calls.DURATIONS, 1, #calls.DURATIONS, #list + 1, list) end
  if call.method == "get" and call.on[1] == "queue" then list[#list + 1] = 30 end
  return list
end

--- The container or queue of a call; nil for all of them.
local function where(call)
  return call.on[2] or call.on.key and call.on.key:match "^[^/]+"
end

local function concerns(span, call)
  local place = where(call)
  return not place or place == span.where
end

--- Notes what may end after the call.
function ends_type:note(call, begun)
  for _, seconds in ipairs(spans(call)) do
    if seconds > 0 then
      table.insert(self.list, { math.floor(begun + seconds * 1000), math.floor(ends.now() + seconds * 1000),
        where = where(call) })
    end
  end
end

--- The ends to come, the next one first.
local function ahead_of(self, from)
  local left = {}
  for _, span in ipairs(self.list) do
    if span[2] > from then left[#left + 1] = span end
  end
  table.sort(left, function(a, b) return a[1] < b[1] end)
  self.list = left
  return left
end

--- Sleeps to, just before or just after an end to come.
function ends_type:sleep(call)
  local now = ends.now()
  local ahead = ahead_of(self, now)
  local chosen = ahead[math.min(call.sleep, #ahead)]
  local ms = chosen and chosen[1] + call.by - now or 1000
  if ms <= 0 or (self.live and ms > LOOK_AHEAD_S * 1000) then return nil end
  core.sleep(ms / 1000)
  return ("synod.sleep(%s)"):format(ms / 1000)
end

--- On a real clock the two stores are not asked at one instant: waits until no end is near.
function ends_type:keep_clear(call)
  local margin = MARGIN_S * 1000
  for _, span in ipairs(ahead_of(self, ends.now() - margin // 2)) do
    local now = ends.now()
    if concerns(span, call) and now + margin > span[1] and now < span[2] + margin // 2 then
      core.sleep((span[2] + margin // 2 - now) / 1000)
    end
  end
end

--- Was it too late for keep_clear to have been of use?
function ends_type:crossed(call, begun)
  for _, span in ipairs(self.list) do
    if concerns(span, call) and span[1] >= begun and span[1] <= ends.now() then return true end
  end
  return false
end

return ends
