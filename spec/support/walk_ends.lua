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
local MARGIN_MS = 40     -- from a real call to the next end, beside what such a call has taken lately
local AFTER_MS = 20      -- from an end to the next real call
local CLOSE_MS = 5       -- nearer to an end the answers tell nothing
local SET_S = 0.01       -- a wall clock that goes so far beside ours was set
local FORGETS = 0.98     -- what is left of a call's longest time at the next one

local ends = {}

---@class spec.Ends
---@field live boolean
---@field list table[]  spans of milliseconds: from, to, and where
---@field took table<string, number>  milliseconds, by method
---@field offset number  from our clock to the wall clock, which a server goes by
local ends_type = {}
ends_type.__index = ends_type

---@param live boolean|nil  real waits are short
---@return spec.Ends
function ends.new(live)
  return setmetatable({ live = live, list = {}, took = {}, offset = core.time() - core.now() }, ends_type)
end

--- Instants are in milliseconds.
function ends.now() return math.floor(core.now() * 1000 + 0.5) end

--- The seconds after which a message shows: the order of messages is that of these instants.
local function shows(call)
  local list, options = {}, nil
  for _, value in ipairs { call.args[1] or false, call.args[2] or false } do
    options = type(value) == "table" and value or options
  end
  if call.on[1] == "queue" and call.method == "put" then list[1] = options.delay end
  if call.on[1] == "queue" and call.method == "get" then list[1] = options.visibility or 30 end
  if call.on.what == "message" then list[1] = options.visibility end
  return list
end

--- The seconds after which something may end that the call has begun.
local function spans(call)
  local list = {}
  for _, value in ipairs { call.args[1] or false, call.args[2] or false } do
    if type(value) == "number" and call.method == "break_lease" then list[#list + 1] = value end
    if type(value) == "table" then
      for _, name in ipairs { "duration", "ttl" } do list[#list + 1] = value[name] end
    end
  end
  if call.method == "renew" then table.move(calls.DURATIONS, 1, #calls.DURATIONS, #list + 1, list) end
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
  local now = ends.now()
  local function add(seconds, is_show)
    if seconds > 0 then
      table.insert(self.list, { math.floor(begun + seconds * 1000), math.floor(now + seconds * 1000),
        where = where(call), shows = is_show })
    end
  end
  for _, seconds in ipairs(spans(call)) do add(seconds, false) end
  for _, seconds in ipairs(shows(call)) do add(seconds, true) end
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

--- The message before or after which the one of this call would show: which of them, only luck could tell.
local function rival(self, call, from, to)
  for _, seconds in ipairs(shows(call)) do
    for _, span in ipairs(self.list) do
      if seconds > 0 and span.shows and concerns(span, call)
        and from + seconds * 1000 <= span[2] and span[1] <= to + seconds * 1000 then
        return span, seconds
      end
    end
  end
end

--- On a real clock the two stores are not asked at one instant: waits until no end is near, and none would come near.
function ends_type:keep_clear(call)
  local before = MARGIN_MS + 2 * (self.took[call.method] or 0)
  for _, span in ipairs(ahead_of(self, ends.now() - AFTER_MS)) do
    local now = ends.now()
    if concerns(span, call) and now + before > span[1] and now < span[2] + AFTER_MS then
      core.sleep((span[2] + AFTER_MS - now) / 1000)
      return self:keep_clear(call)
    end
  end
  local now = ends.now()
  local span, seconds = rival(self, call, now - AFTER_MS, now + before)
  if span then
    core.sleep((span[2] + AFTER_MS + 1 - now) / 1000 - seconds)
    return self:keep_clear(call)
  end
end

--- Was it too late for keep_clear to have been of use, or the clock set? To be asked after each call.
function ends_type:crossed(call, begun)
  local now = ends.now()
  self.took[call.method] = math.max(now - begun, (self.took[call.method] or 0) * FORGETS)
  if math.abs(core.time() - core.now() - self.offset) > SET_S then return true end
  for _, span in ipairs(self.list) do
    if concerns(span, call) and span[1] >= begun and span[1] <= now + CLOSE_MS then return true end
  end
  return rival(self, call, begun - CLOSE_MS, now + CLOSE_MS) ~= nil
end

return ends
