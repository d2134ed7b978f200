-- backoff: how long to wait before the next try, and the one loop that waits for something to become true.
--
--   local pause = backoff.new { min = 0.1, max = 10 }
--   while not try() do synod.sleep(pause:next()) end
--
--   local props, err = backoff.poll(function() return blob:head() end,
--     { store = synod.store, container = "jobs", prefix = "done", timeout = 60 })
--
-- Decorrelated jitter: each wait is drawn between `min` and `factor` times the one before, up to `max`. So those who
-- began together do not come again together, and a long wait is not always followed by a longer one.

local core = require "synod.core"
local options = require "synod.options"

local backoff = {}

local MIN_S, MAX_S, FACTOR = 0.1, 5, 3
local IDLE_S = 30 -- between looks while a hint stands
local RECHECK_S = 5 -- between looks while the store says that nothing has changed
local SPACE_MIN_S, SPACE_MAX_S = 0.001, 0.02 -- between looks for changes that turn out not to be the one waited for
local CALM_MIN_S = 0.5 -- the first look for changes that are fewer than the awaited ones; then 1, 2, 4, ....

---@class synod.Backoff.Options
---@field min? number      seconds, the shortest wait (0.1)
---@field max? number      seconds, the longest (5, or min where that is more)
---@field factor? number   how much longer than the one before a wait may be (3)
---@field jitter? boolean  false: exactly min, min * factor, ... max

---@class synod.Backoff
local Backoff = {}
Backoff.__index = Backoff
Backoff.__name = "synod.Backoff"

local function complete(o)
  o.min = o.min or math.min(MIN_S, o.max or MIN_S)
  o.max = o.max or math.max(MAX_S, o.min)
  o.factor = o.factor or FACTOR
  return o
end

local function make(o)
  return setmetatable({ min = o.min, max = o.max, factor = o.factor, jitter = o.jitter }, Backoff)
end

local BACKOFF = { min = "positive", max = "positive", factor = "factor", jitter = "boolean" }

---@param given? synod.Backoff.Options
---@return synod.Backoff
function backoff.new(given)
  local o = complete(options.read("backoff.new", given, BACKOFF))
  if o.max < o.min then options.refuse("backoff.new: max (%g s) is below min (%g s)", o.max, o.min) end
  return make(o)
end

--- How long to wait now.
---@return number seconds
function Backoff:next()
  local last = self.last or self.min
  if self.jitter == false then
    self.last = math.min(self.max, self.last and last * self.factor or last)
  else
    self.last = self.min + (math.min(self.max, last * self.factor) - self.min) * core.random()
  end
  return self.last
end

--- Begin again with short waits: something has come of it.
function Backoff:reset()
  self.last = nil
end

local MEAN_STEPS, GOLDEN = 500, 0.6180339887498949 -- a sequence that fills [0, 1) evenly, the same everywhere

--- The mean of the waits in the long run, with jitter: what an idle waiter costs is reckoned from it.
---@param min number
---@param max number
---@param factor? number
---@return number seconds
function backoff.mean(min, max, factor)
  local last, sum = min, 0
  for i = 1, MEAN_STEPS do
    last = min + (math.min(max, last * (factor or FACTOR)) - min) * (i * GOLDEN % 1)
    sum = sum + last
  end
  return sum / MEAN_STEPS
end

---------------------------------------------------------------- poll

---@class synod.Poll.Options: synod.Backoff.Options  min and max are those of a store that tells nothing, or of none
---@field timeout? number    seconds; 0: look once; nothing: wait for ever
---@field store? synod.Store where what is waited for will be changed
---@field container? string  there; nothing: any
---@field prefix? string     of the names that will change; nothing: any
---@field recheck? number    seconds between looks while the store tells of no change (5)
---@field hint? synod.Hint    for a store that tells of none: who tells instead (synod.hints)
---@field idle? number        seconds between looks while the hint stands (30)
---@field apart? number       seconds, the most that is kept between looks for changes that were others (0.02)

local POLL = {
  min = "positive", max = "positive", factor = "factor", jitter = "boolean", timeout = "seconds", store = "store",
  container = "string", prefix = "string", recheck = "positive", hint = "table", idle = "positive", apart = "positive",
}

local function seconds_until(instant)
  return (instant - core.instant()) / 1e9
end

local function after(instant, seconds)
  return instant + math.floor(seconds * 1e9 + 0.5)
end

local function earlier(a, b)
  return b and b < a and b or a
end

--- Sleeps through changes until the mark has passed `target`, or until `limit`. When there were changes but too few (a
--- writer may have died before it told of its own), it is over when `calm` seconds have passed since the last look.
---@return boolean reached  the mark has passed the target
local function sleep_through(p, mark, target, looked, limit)
  local o = p.options
  while mark <= target do
    local left = seconds_until(limit)
    if left <= 0 then return false end
    local changed, why, now = o.store:changed {
      container = o.container, prefix = o.prefix, since = mark, timeout = left,
    }
    if changed == nil then error(why, 0) end
    if not changed then return false end
    mark = now
    limit = earlier(limit, after(looked, p.calm))
  end
  return true
end

--- Those who are told again and again look at most so often.
local function keep_apart(p, looked)
  local left = seconds_until(earlier(after(looked, p.space), p.deadline))
  if left > 0 then core.sleep(left) end
  p.space = math.min(math.max(p.space * 2, SPACE_MIN_S), p.options.apart or SPACE_MAX_S)
end

--- Waits where the store tells of changes: for one, or until it is time to look anyway.
local function wait_told(p, mark, target, looked)
  local limit = earlier(after(looked, p.options.recheck), p.deadline)
  if not sleep_through(p, mark, target, looked, limit) then
    p.calm = math.min(p.calm * 2, p.options.recheck)
    return
  end
  keep_apart(p, looked)
end

--- Waits where the store tells of nothing: for the time that is due, or until somebody says that it is worth a look.
local function wait_untold(p, looked)
  local hint = p.options.hint
  local seconds = hint and hint:standing() and p.options.idle or p.pause:next()
  local left = math.max(0, seconds_until(earlier(after(core.instant(), seconds), p.deadline)))
  if not hint then return core.sleep(left) end
  if hint:wait(left) then
    p.pause:reset()
    keep_apart(p, looked)
  end
end

local function timed_out(o, last)
  local message = ("not done after %g s"):format(o.timeout)
  if type(last) == "table" and last.message then message = message .. "; the last answer: " .. tostring(last) end
  return core.new_error { code = "Timeout", message = message }
end

--- Calls fn until its first result is true (neither nil nor false) and returns all its results. Between calls it waits:
--- for a change, where the store tells of changes, one between the call and the wait included, and `recheck` seconds at
--- most; else for a time that grows from min to max, with jitter. An error in fn is raised.
---
--- fn is called with the seconds that are left, or nil. Where fn knows that nothing can come of it before the mark of
--- the store has passed a number, it returns nil and that number: changes up to it do not wake it at once.
---@param fn fun(left: number|nil): ...
---@param given? synod.Poll.Options
---@return ...  fn's results, or nil and an err with code Timeout
function backoff.poll(fn, given)
  local o = complete(options.read("backoff.poll", given, POLL))
  if type(fn) ~= "function" then options.refuse("backoff.poll: a function expected, got %s", type(fn)) end
  if o.max < o.min then options.refuse("backoff.poll: max (%g s) is below min (%g s)", o.max, o.min) end
  if (o.container or o.prefix) and not o.store then
    options.refuse("backoff.poll: container and prefix say where to look for a change: name the store too")
  end
  o.recheck, o.idle = o.recheck or RECHECK_S, o.idle or IDLE_S
  local p = { options = o, pause = make(o), space = 0, calm = CALM_MIN_S }
  p.deadline = o.timeout and after(core.instant(), o.timeout)
  while true do
    local mark = o.store and o.store:mark { container = o.container, prefix = o.prefix }
    local results = table.pack(fn(p.deadline and math.max(0, seconds_until(p.deadline))))
    if results[1] then return table.unpack(results, 1, results.n) end
    if p.deadline and core.instant() >= p.deadline then return nil, timed_out(o, results[2]) end
    if mark then
      local target = math.type(results[2]) == "integer" and math.max(mark, results[2]) or mark
      wait_told(p, mark, target, core.instant())
    else
      wait_untold(p, core.instant())
    end
  end
end

return backoff
