-- barrier: nobody goes on before all have arrived.
--
--   local barrier = require "synod.barrier"
--   local passed = assert(barrier.new({ name = "startup" }):arrive_and_wait { timeout = 60 })
--
-- Each instance raises a flag in the store and lists the flags once. Whoever sees the last one opens the gate, and the
-- others look at nothing but the gate; so an instance makes as many requests among a thousand as among three. Because
-- the last to arrive may crash before it opens the gate, or be a foreign client that knows of none, those who wait list
-- again now and then, and any of them may open it.
--
-- Everything lies under <deployment>/<role>/, so that the flags of an earlier deployment do not count. docs/reference/
-- barrier.md is the manual, flags.lua the records.

local core = require "synod.core"
local crossing = require "synod.barrier.crossing"
local flags = require "synod.barrier.flags"
local generation = require "synod.generation"
local options = require "synod.options"
local plan = require "synod.plan"

local barrier = {}

local CONTAINER = "flags"
local POLL_MIN_S, POLL_MAX_S = 0.1, 1
local RECHECK_S, RECHECK_BARE_S = 10, 2
local KEY_MAX = 1000 -- bytes: a blob's name has 1,024
local NAMED_MAX = 10 -- ids in the text of an err; its field has all

---@class synod.Barrier.Options
---@field name string            letters, digits, "_" and "-"
---@field parties? integer       how many there are, numbered from 0 (instance.count)
---@field at_least? integer      so many are enough (parties) ...
---@field within? number         ... when so many seconds have passed since the own arrival (0)
---@field round? integer|string  which turn of a loop this is
---@field bare? boolean          flags are <name>_<ordinal>, as in the classic recipe
---@field store? synod.Store     synod.store
---@field container? string      "flags"
---@field deployment? string     instance.deployment
---@field instance? synod.Instance  who this is (synod.instance)
---@field poll_min? number       seconds between looks over a store that does not tell of changes (0.1) ...
---@field poll_max? number       ... at most (1)
---@field recheck? number        seconds until a gate that nobody opened is found out (10, bare: 2)

local NEW = {
  name = "label", parties = "count", at_least = "count", within = "seconds", round = "label", bare = "boolean",
  store = "store", container = "string", deployment = "string", instance = "table", poll_min = "positive",
  poll_max = "positive", recheck = "positive",
}

---@class synod.Barrier
local Barrier = {}
Barrier.__index = Barrier
Barrier.__name = "synod.Barrier"

--- What nobody can know but whoever starts the instances; says what is missing, and how to give it.
local function problem_with(o, who)
  if not o.name then return "a name is needed, such as name = \"startup\"" end
  if math.type(who.ordinal) ~= "integer" or who.ordinal < 0 then
    return "this instance has no ordinal: run it with -n N, or name it with --instance ROLE_IN_ORDINAL"
  end
  if math.type(o.parties) ~= "integer" then
    return "how many instances there are is not known: give parties = N, or run with -n N or --instances N"
  end
  if not o.deployment and not o.round and not o.bare then
    return "without a deployment the flags of an earlier run would count: run with -n N, or give --deployment ID, "
      .. "a round, or bare = true"
  end
  if o.deployment and not o.bare and not who.role then
    return "this instance has no role: name it with --instance ROLE_IN_ORDINAL"
  end
end

--- What the numbers say about each other.
local function problem_of_numbers(o, who)
  if o.parties > flags.PARTIES_MAX then
    return ("parties = %d is more than a barrier takes (%d)"):format(o.parties, flags.PARTIES_MAX)
  end
  if who.ordinal >= o.parties then
    return ("this is instance %d, and %d parties are numbered 0 to %d"):format(who.ordinal, o.parties, o.parties - 1)
  end
  if (o.at_least or 0) > o.parties then
    return ("at_least = %d of parties = %d can never arrive"):format(o.at_least, o.parties)
  end
  if o.within and not o.at_least then return "within says when fewer are enough: give at_least = N too" end
  if o.round == "leave" then return "round = \"leave\" is the name of the other side of a double barrier" end
  if o.poll_max < o.poll_min then
    return ("poll_max (%g s) is below poll_min (%g s)"):format(o.poll_max, o.poll_min)
  end
end

--- Where the flags are: <deployment>/<role>/<name>[.<round>], or without a generation the name alone.
local function key_of(o, who)
  local key = o.round and ("%s.%s"):format(o.name, o.round) or tostring(o.name)
  if o.bare or not o.deployment then return key end
  return ("%s/%s/%s"):format(generation.part(o.deployment), generation.part(who.role), key)
end

--- An instance's id; of a bare barrier, where nobody knows the others' roles, the name of its flag.
local function id_of(o, ordinal)
  if o.role and not o.bare then return ("%s_IN_%d"):format(o.role, ordinal) end
  return ("%s_%d"):format(o.key, ordinal)
end

--- Makes a barrier; touches no store. One object is one use: a loop names its `round`.
---@param given synod.Barrier.Options
---@return synod.Barrier
function barrier.new(given)
  local o = options.read("barrier.new", given, NEW)
  local who = o.instance or require("synod").instance
  if not o.deployment and who.deployment ~= "" then o.deployment = who.deployment end
  o.parties = o.parties or who.count
  o.poll_min = o.poll_min or math.min(POLL_MIN_S, o.poll_max or POLL_MIN_S)
  o.poll_max = o.poll_max or math.max(POLL_MAX_S, o.poll_min)
  local problem = problem_with(o, who) or problem_of_numbers(o, who)
  if problem then options.refuse("barrier.new: %s", problem) end
  o.container = o.container or CONTAINER
  if o.at_least then o.within = o.within or 0 end
  o.recheck = o.recheck or o.bare and RECHECK_BARE_S or RECHECK_S
  o.key, o.role, o.ordinal = key_of(o, who), who.role, who.ordinal
  if #o.key > KEY_MAX then options.refuse("barrier.new: the names together have %d bytes (%d)", #o.key, KEY_MAX) end
  o.who = who.id or id_of(o, o.ordinal)
  plan.note { policy = "barrier", name = tostring(o.name), look = o.poll_max, idle = o.poll_max }
  return setmetatable({ options = o }, Barrier)
end

---------------------------------------------------------------- the calls

local WAIT = { timeout = "seconds" }

local function all_of(parties)
  local members = {}
  for ordinal = 0, parties - 1 do members[ordinal + 1] = ordinal end
  return members
end

local function entering(self)
  self.entry = self.entry or crossing.new(self.options, self.options.key, all_of(self.options.parties))
  return self.entry
end

local function check_unused(self)
  if self.used then
    error(("the barrier '%s' has been passed: one object is one use, and a loop names its round")
      :format(self.options.name), 3)
  end
end

local function ids(self, ordinals)
  local list = {}
  for i, ordinal in ipairs(ordinals) do list[i] = id_of(self.options, ordinal) end
  return list
end

---@class synod.Barrier.Passed
---@field count integer     how many had arrived when the gate was opened
---@field missing string[]  the ids of those who had not; empty but where at_least was given
---@field parties integer

local function late(self, side, timeout)
  local missing = ids(self, side.missing)
  local count = #side.members - #missing
  return core.new_error {
    code = "Timeout", operation = "wait at", target = ("the barrier '%s'"):format(self.options.name),
    message = ("%d of %d had arrived when %g s had passed; missing: %s"):format(
      count, #side.members, timeout, table.concat(missing, ", ", 1, math.min(#missing, NAMED_MAX))),
    count = count, missing = missing,
  }
end

--- A side's outcome in the terms of the caller, who gave a `timeout`, or `given` for more than this wait.
local function wait(self, side, timeout, given)
  local passed, err = side:wait(timeout)
  if not passed then return nil, err or late(self, side, given or timeout) end
  self.used = true
  local o = self.options
  if side.opened_at and side == self.entry and not o.bare and o.deployment and not o.round then
    generation.clean_later(side.store:container(o.container), generation.part(o.deployment), side.opened_at)
    side.opened_at = nil
  end
  local missing = side:missing_from(passed.counted)
  return { count = #side.members - #missing, missing = ids(self, missing), parties = #side.members }
end

--- Says that this instance is there; does not wait for the others. The flag stands even when what follows fails, and
--- calling it again is harmless.
---@return true|nil, synod.Error? err
function Barrier:arrive()
  check_unused(self)
  return entering(self):arrive()
end

--- Waits until all have arrived, or as many as are enough.
---@param given? { timeout?: number }  seconds; 0: look once; nothing: wait for ever
---@return synod.Barrier.Passed|nil, synod.Error? err  Timeout, with who is missing; what the store refuses
function Barrier:wait(given)
  given = options.read("barrier:wait", given, WAIT)
  if not self.entry or not self.entry.arrived then
    error(("the barrier '%s': call arrive() before wait(), or arrive_and_wait()"):format(self.options.name), 2)
  end
  return wait(self, self.entry, given.timeout)
end

--- Both.
---@param given? { timeout?: number }
---@return synod.Barrier.Passed|nil, synod.Error? err
function Barrier:arrive_and_wait(given)
  given = options.read("barrier:arrive_and_wait", given, WAIT)
  check_unused(self)
  local side, began = entering(self), core.now()
  local arrived, err = side:arrive(given.timeout)
  if not arrived then return nil, err end
  local left = given.timeout and math.max(0, given.timeout - (core.now() - began))
  return wait(self, side, left, given.timeout)
end

--- Who has arrived, by one list of the flags.
---@return integer|nil count, string[]|synod.Error missing  ids
function Barrier:arrived()
  local side = entering(self)
  local raised, err = side.flags:list()
  if not raised then return nil, err end
  local missing = side:missing_from(raised)
  return #side.members - #missing, ids(self, missing)
end

--- The first side of a double barrier: everyone is in before anyone goes on.
Barrier.enter = Barrier.arrive_and_wait

--- The second: everyone who was counted in has left before anyone goes on.
---@param given? { timeout?: number }
---@return synod.Barrier.Passed|nil, synod.Error? err
function Barrier:leave(given)
  given = options.read("barrier:leave", given, WAIT)
  local entry = self.entry
  if not entry or not entry.arrived then
    error(("the barrier '%s': leave() comes after enter()"):format(self.options.name), 2)
  end
  if not self.exit then
    local members = entry.passed and entry:present_in(entry.passed.counted) or entry.members
    self.exit = crossing.new(self.options, self.options.key .. ".leave", members)
  end
  local left, err = self.exit:arrive()
  if not left then return nil, err end
  return wait(self, self.exit, given.timeout)
end

--- Takes down the flags and the gates, so that the name can be used from new: for bare barriers, where nothing else
--- tells old flags from new ones. Only when no instance is at the barrier.
---@return true|nil, synod.Error? err
function Barrier:reset()
  for _, key in ipairs { self.options.key, self.options.key .. ".leave" } do
    local cleared, err = crossing.new(self.options, key, {}).flags:clear()
    if not cleared then return nil, err end
  end
  self.entry, self.exit, self.used = nil, nil, nil
  return true
end

return barrier
