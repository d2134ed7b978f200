-- mutex: one at a time.
--
--   local mutex = require "synod.mutex"
--   local account = mutex.new { name = "account" }
--   local balance, err = account:with(function(held) ... end, { timeout = 5 })
--
-- The body of `with` is guarded: it is stopped, with LeaseLost, before anybody else could have the lock. `lock` gives
-- the lock without a guard, to whoever looks after that himself (held:held(), held:wait_lost(), fenced writes).
--
-- docs/reference/mutex.md is the manual, seat.lua the lease, line.lua the order of the fair ones.

local backoff = require "synod.backoff"
local core = require "synod.core"
local line = require "synod.mutex.line"
local options = require "synod.options"
local plan = require "synod.plan"
local seat = require "synod.seat"

local mutex = {}

local PATIENCE_S = 0.5     -- who is first in the line and does not take a lock that is free is gone
local PATIENCE_LOOKS = 3   -- ... over a store that tells of no changes: so many looks
local LOOK_REQUESTS = 2    -- of one who stands in the line: at the line, and at the lock

---@class synod.Mutex.Options: synod.Seat.Options
---@field fair? boolean  first come, first served, among the instances that say so (false)

local NEW = seat.kinds { fair = "boolean" }
local WAIT = { timeout = "seconds" }

---@class synod.Mutex
local Mutex = {}
Mutex.__index = Mutex
Mutex.__name = "synod.Mutex"

---@class synod.Lock  the lock, held; to be closed
---@field fence integer
---@field held fun(self): boolean        is it ours, by our own clock
---@field remaining fun(self): number    seconds until it is lost, unless it is renewed
---@field wait_lost fun(self, timeout?: number): synod.Error|nil
---@field put fun(self, blob: synod.Blob, body: string, options?: synod.PutOptions): synod.Props|nil, synod.Refusal
---@field set_metadata fun(self, blob: synod.Blob, metadata: synod.Metadata, options?: synod.Conditions)
---@field merge fun(self, table: synod.Table, entity: synod.Entity, options?: table)
local Lock = seat.class "synod.Lock"

--- Touches no store.
---@param given synod.Mutex.Options
---@return synod.Mutex
function mutex.new(given)
  local o, problem = seat.complete(options.read("mutex.new", given, NEW), "account")
  if problem then options.refuse("mutex.new: %s", problem) end
  o.purpose = o.purpose or "mutex"
  if o.fair then
    local longest, shortest = plan.look_interval(o.ttl)
    plan.note {
      policy = "mutex", name = o.name, ttl = o.ttl, renew = o.timing.renew,
      look = (longest + shortest) / 2 / LOOK_REQUESTS, idle = plan.IDLE_S,
    }
  end
  local self = setmetatable({ options = o, seat = seat.new(o, "mutex/" .. o.name) }, Mutex)
  if o.fair then self.line = line.at(self.seat.container, self.seat.name .. ".line", o.me) end
  return self
end

---------------------------------------------------------------- waiting

local function is_contended(err)
  return err.code == "LeaseAlreadyPresent"
end

local function locked(self, held)
  return setmetatable({ lease = held, fence = held.fence, mutex = self }, Lock)
end

--- A wait that was over before it came to be our turn, in the terms of the caller.
local function late(self, timeout, last)
  local by = last.holder
    and (": %s holds it%s"):format(last.holder, last.since and " since " .. last.since or "") or ""
  return core.new_error {
    code = "Timeout", operation = "lock", target = ("the mutex '%s'"):format(self.options.name),
    message = ("not free within %g s%s"):format(timeout, by),
    holder = last.holder, host = last.host, since = last.since, fence = last.fence,
  }
end

--- How long who is first may leave a free lock alone. That a record is dead he may have to see for all of its ttl.
local function patience(self)
  local o = self.options
  local looks = o.store:kind() == "azure" and PATIENCE_LOOKS * self.seat:place().max or 0
  return PATIENCE_S + looks + (o.timing.record and o.ttl or 0)
end

--- When the first has left a free lock alone for too long, all before us go. The farther back we stand, the longer we
--- bear with them: each of those in between had his time to do it, and is gone too when he did not.
local function judge_first(self, entries, position, place, watch)
  local held, mark = self.seat:look()
  local now = core.now()
  if watch.hint then watch.hint:toward(held and mark.hints or nil) end
  if held ~= false or not watch.since or watch.first.nonce ~= entries[1].nonce then
    watch.first, watch.since = entries[1], now
  elseif now - watch.since >= watch.patience * (position - 1) then
    place:overtake(entries[1].nonce, watch.patience)
  end
end

local function in_line(self, first)
  local who = first and first.who or "another"
  return core.new_error {
    code = "LeaseAlreadyPresent", operation = "lock", target = ("the mutex '%s'"):format(self.options.name),
    message = ("%s comes first"):format(who), holder = who,
  }
end

--- One look at the line; takes the lock when it is our turn.
---@return boolean|nil settled, synod.Held? held, synod.Error? err
local function take_turn(self, place, watch, left)
  local entries, refusal = self.line:read(left)
  if not entries then return not refusal.retryable, nil, refusal end
  local position = line.position_of(entries, place.nonce)
  if position == 1 then
    local held, err = self.seat:take(left)
    return true, held, err
  elseif not position then
    place:rejoin(left) -- we were taken for gone: a pause, or a store that did not answer
  else
    judge_first(self, entries, position, place, watch)
  end
end

--- First come, first served.
local function take_fairly(self, timeout)
  local began = core.now()
  local entries, err = self.line:read()
  if not entries then return nil, err end
  if #entries == 0 then
    local held, why = self.seat:take(0)
    if held or timeout == 0 or not is_contended(why) then return held, why end
  elseif timeout == 0 then
    return nil, in_line(self, entries[1])
  end
  local won
  local _ <close> = setmetatable({}, { __close = function(_, problem)
    if problem ~= nil and won then won:release() end -- we were cancelled as we left the line
  end })
  local place <close>, refusal = self.line:join(timeout)
  if not place then return nil, refusal end
  local hint <close> = self.seat:hint()
  local watch = { patience = patience(self), first = entries[1], hint = hint }
  local poll = self.seat:place(timeout and math.max(0, timeout - (core.now() - began)), hint)
  poll.recheck, poll.idle = math.min(poll.recheck, watch.patience / 2), plan.IDLE_S * LOOK_REQUESTS
  local settled, held, why = backoff.poll(function(left) return take_turn(self, place, watch, left) end, poll)
  won = held
  if settled then return held, why end
  return nil, in_line(self, watch.first)
end

local function take(self, timeout)
  if self.line then return take_fairly(self, timeout) end
  return self.seat:take(timeout)
end

local function lock(self, timeout)
  local held, err = take(self, timeout)
  if held then return locked(self, held) end
  if is_contended(err) then err = late(self, timeout, err) end
  return nil, err
end

---------------------------------------------------------------- the calls

--- Waits until it is ours. A cancel meanwhile leaves nothing behind.
---@param given? { timeout?: number }  seconds; 0: try once; nothing: for ever
---@return synod.Lock|nil, synod.Error? err  Timeout, with who holds it; what the store refuses
function Mutex:lock(given)
  given = options.read("mutex:lock", given, WAIT)
  return lock(self, given.timeout)
end

--- Takes it if it is free. Of a fair one: and nobody waits.
---@return synod.Lock|nil, synod.Error? err  LeaseAlreadyPresent: err.holder, err.host, err.since, err.fence
function Mutex:try_lock()
  if self.line then
    local entries, why = self.line:read()
    if not entries then return nil, why end
    if #entries > 0 then return nil, in_line(self, entries[1]) end
  end
  local held, err = self.seat:try()
  if not held then return nil, err end
  return locked(self, held)
end

--- Runs fn(held) while it is ours, guarded: stopped before it could be another's. Then everything that fn has started
--- has ended, and only then the lock is given back.
---@param fn fun(held: synod.Lock): ...
---@param given? { timeout?: number }  seconds for the wait; 0: try once; nothing: for ever
---@return ...  fn's results, or nil, err when the lock could not be had; an error in fn is raised, LeaseLost too
function Mutex:with(fn, given)
  given = options.read("mutex:with", given, WAIT)
  if type(fn) ~= "function" then options.refuse("mutex:with: a function expected, got %s", type(fn)) end
  local held <close>, err = lock(self, given.timeout)
  if not held then return nil, err end
  return seat.run(held.lease, nil, fn, held)
end

--- Gives the lock back. It is not held from the beginning of the call on.
---@return true|nil, synod.Error? err  LeaseLost: it had been lost before; what the store refuses
function Lock:unlock()
  return self.lease:release()
end

function Lock:__close()
  self.lease:release()
end

return mutex
