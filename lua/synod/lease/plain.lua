-- plain: what our own clock says of a lease that nobody keeps: one that the script renews itself, or not at all.
--
--   lease:held()        may it be relied on?             lease:wait_lost(5)    err LeaseLost, or nil
--   lease:remaining()   seconds until it may not be      lease:guard(fn, ...)  as of a lease that is kept
--
-- Counted like that of a kept one: from before the acquire, or the last renewal that was confirmed, was sent, less the
-- margin for clocks and for requests under way. A renewal without an answer moves nothing.

local core = require "synod.core"
local guard = require "synod.lease.guard"

local plain = {}

local SHORTEST_S = 15 -- of a lease that was handed to us, of which nobody has said how long it lasts

---@class synod.Lease.Clock
---@field duration? integer  seconds; -1: for ever
---@field soft integer       instants; math.maxinteger: never
---@field hard integer
---@field slice? number
---@field blob? synod.Blob
---@field lost? synod.Refusal
---@field over synod.Event   it is lost, given back or handed on
---@field scopes table<synod.Scope, true>

local clocks = setmetatable({}, { __mode = "k" }) ---@type table<synod.Lease, synod.Lease.Clock>

--- Of a lease that was handed to us: not known to be ours before a renewal says so.
local function clock_of(lease)
  local clock = clocks[lease]
  if not clock then
    clock = { soft = 0, hard = 0, over = core.event(), scopes = {} }
    clock.over:set(true)
    clocks[lease] = clock
  end
  return clock
end

--- It is ours, by what was sent at this instant.
local function start(clock, sent)
  clock.lost = nil
  clock.over:clear()
  if clock.duration == -1 then
    clock.soft, clock.hard = math.maxinteger, math.maxinteger
    return
  end
  local timing = core.lease_timing(clock.duration or SHORTEST_S)
  clock.soft, clock.hard = sent + math.floor(timing.soft * 1e9), sent + math.floor(timing.hard * 1e9)
  clock.slice = timing.slice
  for scope in next, clock.scopes do scope:move(clock.soft, clock.hard) end
end

--- From here on it is not ours; an err says that it was lost.
local function finish(clock, err)
  if clock.over:is_set() then return end
  clock.lost = err
  clock.over:set(true)
  for scope in next, clock.scopes do scope:stop(err) end
end

local function loss(lease, message)
  return core.new_error { code = "LeaseLost", operation = "keep", target = tostring(lease), message = message }
end

--- By our own clock, whatever the store would say. One that ended with its block has not told us.
local function look(lease, clock)
  if lease.released then return finish(clock) end
  if core.instant() < clock.soft then return end
  finish(clock, loss(lease, "it was not renewed in time, by our own clock"))
end

--- A lease that was just taken.
---@param lease synod.Lease
---@param sent integer      the instant before the acquire was sent
---@param duration? integer
---@param blob? synod.Blob  nil: a container's
---@return synod.Lease
function plain.begin(lease, sent, duration, blob)
  local clock = { duration = duration, blob = blob, over = core.event(), scopes = {} }
  clocks[lease] = clock
  start(clock, sent)
  return lease
end

---------------------------------------------------------------- the calls

local methods = core.lease_methods()
local renew = methods.renew

--- Is it ours at this instant, by our own clock?
---@return boolean
function methods:held()
  local clock = clock_of(self)
  look(self, clock)
  return not clock.over:is_set()
end

--- Seconds until it is lost, unless it is renewed before; 0 when it is not held.
---@return number
function methods:remaining()
  if not self:held() then return 0 end
  local soft = clocks[self].soft
  return soft == math.maxinteger and math.huge or (soft - core.instant()) / 1e9
end

--- Waits until it is lost.
---@param timeout? number  seconds; nothing: for ever
---@return synod.Refusal|nil err  LeaseLost; nil: it was given back or handed on, or the time is over
function methods:wait_lost(timeout)
  if timeout ~= nil and not (type(timeout) == "number" and timeout >= 0) then
    error("lease:wait_lost: a number of seconds expected, 0 or more, got " .. tostring(timeout), 2)
  end
  local clock = clock_of(self)
  local finish_at = timeout and core.instant() + math.floor(timeout * 1e9) or math.maxinteger
  while self:held() do
    local now, wake = core.instant(), math.min(clock.soft, finish_at)
    if now >= finish_at then return nil end
    clock.over:wait(wake < math.maxinteger and (wake - now) / 1e9 or nil)
  end
  return clock.lost
end

--- Runs fn as a task of its own, and stops it before the lease could be another's, with all that it has started. A
--- renewal meanwhile moves that. Does not release the lease.
---@param fn function
---@param ... any
---@return ...  fn's results; its error is raised, LeaseLost too
function methods:guard(fn, ...)
  if type(fn) ~= "function" then error("lease:guard: a function expected, got " .. type(fn), 2) end
  if not self:held() then error(clocks[self].lost or loss(self, "it is not held"), 0) end
  local clock = clocks[self]
  local is_endless = clock.soft == math.maxinteger
  local scope = guard.scope {
    soft = not is_endless and clock.soft or nil, hard = not is_endless and clock.hard or nil, slice = clock.slice,
    name = tostring(self), blob = clock.blob, lease = clock.blob and self.id,
  }
  clock.scopes[scope] = true
  local _ <close> = setmetatable({}, { __close = function() clock.scopes[scope] = nil end })
  return guard.run(scope, fn, ...)
end

--- What the core says of a wrong use is said of the script's line, two calls up.
local function run(call, ...)
  local results = table.pack(pcall(call, ...))
  if not results[1] then error(results[2], type(results[2]) == "string" and 3 or 0) end
  return table.unpack(results, 2, results.n)
end

local function check_table(call, given)
  if given == nil or type(given) == "table" then return end
  error(("bad argument to '%s' (a table of options expected, got %s)"):format(call, type(given)), 3)
end

function methods:renew(given)
  check_table("renew", given)
  local clock, sent = clock_of(self), core.instant()
  local done, err = run(renew, self, given)
  if done then
    start(clock, sent)
  elseif err.status == 404 or err.status == 409 then
    finish(clock, loss(self, tostring(err))) -- the store says whose it is
  end
  return done, err
end

for name, place in next, { release = 1, change = 2, close = 3 } do -- of the options among the arguments
  local call = methods[name]
  methods[name] = function(self, ...)
    check_table(name, (select(place, ...)))
    finish(clock_of(self)) -- from here on it may be another's
    local done, err = run(call, self, ...)
    return done, err
  end
end

return plain
