-- crossing: one side of a barrier, from the arrival of this instance until it has passed.
--
--   arrive   raise the flag; list; the last one opens the gate
--   wait     look at the gate, and list only where the gate may stay shut though all are there
--
-- States: nothing -> arrived (the flag stands) -> passed (an open gate admits us; its record is kept).

local backoff = require "synod.backoff"
local core = require "synod.core"
local flags = require "synod.barrier.flags"

local crossing = {}

local OUTAGE_MAX_S = 60 -- a store that does not answer for so long ends the wait
local CALL_MIN_S, CALL_MAX_S = 1, 10 -- what a request may take, near the end of a wait and otherwise
local OPEN_TRIES = 5

---@class synod.Crossing
---@field members integer[]  the ordinals that are waited for, in order
---@field arrived? integer   instant at which our flag was known to stand
---@field passed? synod.Gate the record of the gate that admitted us
---@field opened_at? integer the store's time when we opened it, seconds since 1970
---@field missing? integer[] who had not arrived when we listed last
local Crossing = {}
Crossing.__index = Crossing

---@param o table  the options of the barrier
---@param key string
---@param members integer[]
---@return synod.Crossing
function crossing.new(o, key, members)
  local store = o.store or require("synod").store
  return setmetatable({
    options = o, store = store, members = members,
    flags = flags.at(store:container(o.container), key, o.ordinal, o.who),
    place = { container = o.container, prefix = key },
    degraded = o.within == 0, -- fewer are enough now
    list_at = 0, -- the instant from which on to list again
  }, Crossing)
end

--- The members that are not in the set.
---@param set table<integer, true>
---@return integer[]
function Crossing:missing_from(set)
  local missing = {}
  for _, ordinal in ipairs(self.members) do
    if not set[ordinal] then missing[#missing + 1] = ordinal end
  end
  return missing
end

---@param set table<integer, true>
---@return integer[]
function Crossing:present_in(set)
  local present = {}
  for _, ordinal in ipairs(self.members) do
    if set[ordinal] then present[#present + 1] = ordinal end
  end
  return present
end

--- How many are enough for a gate to admit us, whoever opened it.
local function enough(self)
  return math.min(self.options.at_least or #self.members, #self.members)
end

--- A gate of fewer parties is that of a smaller deployment, before it grew.
local function admits(self, gate)
  return gate.parties >= self.options.parties and #self:present_in(gate.counted) >= enough(self)
end

--- Opens the gate for those who are there. When somebody else has opened it meanwhile, his record is the one that
--- counts, for everybody; one that does not admit us is replaced.
local function open(self, raised)
  local o = self.options
  local record = { parties = o.parties, at_least = enough(self), counted = {} }
  for _, ordinal in ipairs(self:present_in(raised)) do record.counted[ordinal] = true end
  local over
  for _ = 1, OPEN_TRIES do
    local props, err = self.flags:open(record, over)
    if err then return nil, err end
    if props then
      self.passed, self.opened_at = record, props.last_modified
      return record
    end
    over, err = self.flags:gate()
    if err then return nil, err end
    if over and admits(self, over) then
      self.passed = over
      return over
    end
  end
  return nil, core.new_error {
    code = "ConditionNotMet", operation = "open", target = ("the gate of the barrier %s"):format(self.flags.key),
    message = "others keep writing it", retryable = true,
  }
end

--- Lists the flags, and opens the gate when they are enough.
---@return synod.Gate|nil passed, synod.Error? err
local function count(self, timeout)
  local mark = self.store:mark(self.place)
  local raised, err = self.flags:list(timeout)
  if not raised then return nil, err end
  if not raised[self.options.ordinal] then -- somebody took it down
    local how, why = self.flags:raise(timeout)
    if not how then return nil, why end
    raised[self.options.ordinal] = true
  end
  self.missing = self:missing_from(raised)
  local needed = (self.degraded and enough(self) or #self.members) - (#self.members - #self.missing)
  if needed <= 0 then return open(self, raised) end
  self.list_at = core.instant() + math.floor(self.options.recheck * (0.5 + 0.5 * core.random()) * 1e9)
  -- So many flags, and then the gate: no sooner can it be open.
  self.target = mark and mark + needed
  return nil
end

--- What a request may take when so much time is left.
local function call_timeout(left)
  return left and math.max(CALL_MIN_S, math.min(left, CALL_MAX_S))
end

--- Whether to go on though the store refused: for a while, where it may come right.
local function bears(self, err)
  if not err then
    self.outage = nil
    return true
  end
  self.outage = self.outage or core.instant()
  return err.retryable and core.instant() - self.outage < OUTAGE_MAX_S * 1e9
end

--- A store that is there, and too slow for a crowd that starts at once, is asked again; one that is not there is not.
---@return "raised"|"standing"|nil how, synod.Error? err
local function raise(self, timeout)
  local how, err
  backoff.poll(function(left)
    how, err = self.flags:raise(call_timeout(left))
    return how or err.code == "Unreachable" or not bears(self, err)
  end, { min = self.options.poll_min, max = self.options.poll_max, timeout = timeout })
  self.outage = nil
  return how, err
end

---@param timeout? number  seconds
---@return true|nil, synod.Error? err
function Crossing:arrive(timeout)
  if self.arrived then return true end
  local how, err = raise(self, timeout)
  if not how then return nil, err end
  self.arrived = core.instant()
  if how == "standing" then return true end -- we were here in an earlier life: the gate may be open
  local _, why = count(self)
  if why and not why.retryable then return nil, why end -- else the flag stands, and wait lists again
  return true
end

--- One look.
---@return synod.Gate|nil passed, synod.Error? err
local function look(self, left)
  local timeout = call_timeout(left)
  local gate, err = self.flags:gate(timeout)
  if err then return nil, err end
  if gate and admits(self, gate) then
    self.passed = gate
    return gate
  end
  if core.instant() >= self.list_at then return count(self, timeout) end
  return nil
end

--- Looks until it has passed, failed, or `timeout` is over.
---@return boolean done, synod.Gate|nil passed, synod.Error? err
local function look_until(self, timeout)
  local o = self.options
  local done, passed, err = backoff.poll(function(left)
    local gate, why = look(self, left)
    if gate or not bears(self, why) then return true, gate, why end
    return nil, self.target
  end, {
    min = o.poll_min, max = o.poll_max, recheck = o.recheck, timeout = timeout,
    store = self.store, container = self.place.container, prefix = self.place.prefix,
  })
  if done then return true, passed, err end
  return false
end

--- Waits until an open gate admits us. Nil without an err: the time is over, and `missing` is up to date.
---@param timeout? number  seconds
---@return synod.Gate|nil passed, synod.Error? err
function Crossing:wait(timeout)
  if self.passed then return self.passed end
  local within = self.options.within
  if within and not self.degraded then
    within = math.max(0, within - (core.instant() - self.arrived) / 1e9)
    if not timeout or within <= timeout then
      local done, passed, err = look_until(self, within)
      if done then return passed, err end
      self.degraded, self.list_at = true, 0
      timeout = timeout and timeout - within
    end
  end
  local done, passed, err = look_until(self, timeout)
  if done then return passed, err end
  return count(self, CALL_MIN_S) -- so that it can be said who is missing now
end

return crossing
