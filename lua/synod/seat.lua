-- seat: what mutex, election, semaphore, the head of a quorum and partition are made of: a place in the store that
-- one instance holds at a time, and what is done while it does.
--
--   local seat = seat.new(options, "mutex/account")      -- options as seat.read has made them
--   local held, err = seat:take { timeout = 5 }          -- a synod.Held
--   seat.run(held, stop, fn, ...)                        -- fn guarded by it; ends with `stop` too
--   seat:leave(held)                                     -- gives it back, and tells those who wait
--
-- This file knows how long to wait between looks, and what a policy's options mean for a lease; nothing of policies.

local backoff = require "synod.backoff"
local core = require "synod.core"
local hints = require "synod.hints"
local lease = require "synod.lease"
local outage = require "synod.outage"
local plan = require "synod.plan"
local sight = require "synod.sight"
local task = require "synod.task"

local seat = {}

local CONTAINER = "locks"
local TTL_S = 15
local APART_S = 0.002 -- between looks for changes that were none of ours: a hand-over should take no longer
local CALL_MIN_S = 0.5 -- what a try may take near the end of a wait
local OUTAGE_TOLD_S = 5 -- a store that does not answer for so long is told of
local OUTAGE_MAX_S = 60 -- and one that does not for so long ends a wait

--- The options that each policy of a lease takes beside its own.
seat.OPTIONS = {
  name = "label", ttl = "positive", store = "store", container = "string", instance = "table", purpose = "string",
  renew = "positive", try = "positive",
}

---@class synod.Seat.Options
---@field name string               letters, digits, "_" and "-"
---@field ttl? number               15 to 60 whole seconds: the store's own lease; 0.5 to below 15: a record (15)
---@field store? synod.Store        synod.store
---@field container? string         "locks"
---@field instance? synod.Instance  who this is (synod.instance)
---@field purpose? string           for people: it stands in the metadata
---@field renew? number             seconds from one renewal to the next (a third of the ttl)
---@field try? number               seconds that one attempt may take (3, or a fifth of the ttl)

--- A policy's kinds of options, with those of every seat.
---@param own table<string, string>
---@return table<string, string>
function seat.kinds(own)
  local kinds = {}
  for name, kind in next, seat.OPTIONS do kinds[name] = kind end
  for name, kind in next, own do kinds[name] = kind end
  return kinds
end

--- Completes options that were read; the second result says what cannot be.
---@param o table
---@param example string  a name, for who gave none
---@return table o, string? problem
function seat.complete(o, example)
  if not o.name then return o, ("a name is needed, such as name = \"%s\""):format(example) end
  o.name = tostring(o.name)
  o.ttl = o.ttl or TTL_S
  local timing, why = core.lease_timing(o.ttl, o.renew, o.try)
  if not timing then return o, why end
  o.timing = timing
  o.store = o.store or require("synod").store
  o.instance = o.instance or require("synod").instance
  o.container = o.container or CONTAINER
  o.me = o.instance.id or ("%s/%d"):format(core.host_name(), core.process_id())
  return o
end

---@class synod.Seat
---@field blob synod.Blob
---@field name string
---@field sight synod.Sight
local Seat = {}
Seat.__index = Seat

---@param o table  options that seat.complete has completed
---@param name string  the blob's
---@return synod.Seat
function seat.new(o, name)
  local policy, which = name:match "^(%w+)/([^/]+)"
  plan.note { policy = policy, name = which, ttl = o.ttl, renew = o.timing.renew }
  local container = o.store:container(o.container)
  return setmetatable({
    options = o, name = name, container = container, blob = container:blob(name), sight = sight.new(), idle = {},
    place_name = o.container .. "/" .. name, silence = outage.new(name, OUTAGE_TOLD_S),
  }, Seat)
end

--- A contender that is not waiting for this seat already; it knows what it saw before.
---@return synod.Contender
function Seat:contender()
  local o = self.options
  return table.remove(self.idle) or lease.contender(self.blob, {
    ttl = o.ttl, purpose = o.purpose, renew = o.renew, try = o.try, instance = o.instance,
  })
end

local function with_contender(self, fn)
  local contender = self:contender()
  local _ <close> = setmetatable({}, { __close = function() self.idle[#self.idle + 1] = contender end })
  return fn(contender)
end

--- One look, and an attempt when it looks free.
---@param timeout? number  seconds
---@return synod.Held|nil, synod.Error? err  LeaseAlreadyPresent, with who holds it
function Seat:try(timeout)
  return with_contender(self, function(contender) return contender:try(timeout) end)
end

--- How backoff.poll waits for a change of it, and how long between looks otherwise. A lease that runs out is no change,
--- so there are looks too where the store tells of changes.
---@param timeout? number
---@param hint? synod.Hint
---@return synod.Poll.Options
function Seat:place(timeout, hint)
  local pause, shortest = plan.look_interval(self.options.ttl)
  return {
    store = self.options.store, container = self.options.container, prefix = self.name, timeout = timeout,
    min = shortest, max = pause, recheck = pause, hint = hint, apart = APART_S,
  }
end

--- What tells when to look, where the store does not: to be closed.
---@return synod.Hint|nil
function Seat:hint()
  if self.options.store:kind() ~= "azure" then return nil end
  return hints.on(self.options.store, self.place_name)
end

--- Whether to go on though the store refused: for a while, where it may come right. Without an err: it has answered.
---@param err? synod.Error
---@return boolean
function Seat:bears(err)
  if not err or err.retryable then self.silence:note(err) end
  if not err then
    self.outage = nil
    return true
  end
  self.outage = self.outage or core.instant()
  return err.retryable and core.instant() - self.outage < OUTAGE_MAX_S * 1e9
end

--- Waits until it is ours. A store that does not answer is borne with for a while.
---@param timeout? number  seconds; 0: try once; nothing: for ever
---@param seen? fun(err: synod.Error): boolean|nil  told of each look that finds it held; true ends the wait
---@return synod.Held|nil, synod.Error? err  LeaseAlreadyPresent, with who holds it: the time is over, or `seen` said so
function Seat:take(timeout, seen)
  return with_contender(self, function(contender)
    local hint <close> = self:hint()
    local last
    local settled, held, err = backoff.poll(function(left)
      local held, refusal = contender:try(left and math.max(left, CALL_MIN_S))
      if held then return true, held end
      last = refusal
      if hint then hint:toward(refusal.hints) end
      if refusal.code ~= "LeaseAlreadyPresent" then return not self:bears(refusal), nil, refusal end
      self:bears()
      return seen and seen(refusal), nil, refusal
    end, self:place(timeout, hint))
    self:bears()
    if settled then return held, err end
    return nil, last
  end)
end

--- One look, which takes nothing.
---@param timeout? number
---@return boolean|nil held, synod.Mark|synod.Error mark  nil, err: the store has refused
function Seat:look(timeout)
  local asked = core.now()
  local props, err = self.blob:head { timeout = timeout }
  if props then return self.sight:look(props, asked) end
  if err.code == "BlobNotFound" or err.code == "ContainerNotFound" then return false, {} end
  return nil, err
end

---------------------------------------------------------------- what is done while it is held

--- Ends, at the end of the block, what still runs when the caller is cancelled; its cancel is passed on. What the task
--- ended with has been told, or comes too late.
---@param running synod.Task
---@return table  to be closed
function seat.ending(running)
  return setmetatable({}, {
    __close = function(_, err)
      local cancelled = task.stop({ running }, err)
      pcall(running.join, running)
      if cancelled ~= nil and err == nil then error(cancelled, 0) end
    end,
  })
end

--- Runs fn guarded by the lease. It is stopped with LeaseLost before the lease could be another's, with what `stop` is
--- set to, and when the caller is cancelled; everything it started has ended when this returns.
---@param held synod.Held
---@param stop? synod.Event  nil: nothing else stops it
---@param fn function
---@param ... any
---@return ...  fn's results; its error is raised
function seat.run(held, stop, fn, ...)
  if not stop then return held:guard(fn, ...) end
  local body = core.spawn(held.guard, held, fn, ...)
  local _ <close> = seat.ending(body)
  local watch = core.spawn(function() task.stop({ body }, (stop:wait())) end)
  local _ <close> = seat.ending(watch)
  local results = table.pack(body:join())
  if body:failed() then error(results[2], 0) end
  return table.unpack(results, 1, results.n)
end

--- What a policy gives to who holds: the calls of the lease that mean the same everywhere.
---@param name string  of its type
---@return table class
function seat.class(name)
  local class = { __name = name }
  class.__index = class
  for _, call in ipairs { "held", "remaining", "wait_lost", "put", "set_metadata", "merge" } do
    class[call] = function(self, ...) return self.lease[call](self.lease, ...) end
  end
  return class
end

return seat
