-- bell: how those who push to a queue are found by those who wait there, over a store that tells of no change.
--
--   local pusher = bell.pusher(store, "tasks")       -- before the first push; says in the store where it can be asked
--   pusher:ring()                                    -- after each: those who wait look now
--   pusher:close()
--
--   local ear <close> = bell.listen(store, "tasks", hint)
--   ear:looked(found)                                -- after each look at the queue: has the hint connected to them
--
-- Who pushes and was given an address (--hints) stands in a list in the store (addresses.lua). The hint of who waits
-- stands only while each of those listed is connected and says that it stands, so that nobody is waited for in vain.
-- Who did not for a minute is taken out of the list: it has died, or something else listens there.
-- Whatever goes wrong here costs looks, or a push is found by the next look: nobody is told but the log for debugging.

local addresses = require "synod.hints.addresses"
local core = require "synod.core"
local hints = require "synod.hints"
local log = require "synod.log"
local task = require "synod.task"

local bell = {}

local READ_S = 30         -- between two reads of the list, on average; while nobody stands in it twice as long each
local READ_MAX_S = 300    -- ... time, up to this
local SETTLE_S = 2        -- from a message to a read: who pushed it may still be putting itself into the list
local GONE_S, GONE_LOOKS = 60, 3 -- without standing: both must have passed before an address is taken out
local CLOSE_S = 5         -- for the publishing that is under way when it is closed

--- Seconds between the reads of one who waits where nobody pushes with an address, in the long run.
bell.READ_S = READ_MAX_S

local state -- of the run that is going on: who pushes and who waits in this process, by key

local function current()
  local number = core.run_number()
  if not (state and state.run == number) then state = { run = number, bells = {}, ears = {} } end
  return state
end

local function place_of(name) return "queues/" .. name end

local function key_of(store, name) return store:name() .. "/" .. name end

local function note(what, name, done, err)
  if not done then log.debug(what, { queue = name, error = err }) end
end

---------------------------------------------------------------- who pushes

---@class synod.Pusher
local Pusher = {}
Pusher.__index = Pusher

local function take_away(shared)
  local address = shared.address
  if not address then return end
  shared.address = nil
  shared.publishing:join(CLOSE_S)
  shared.publishing:cancel()
  note("the address could not be taken out of the queue's list", shared.name,
    addresses.remove(shared.store, shared.name, function(other) return other == address end))
end

local function take_away_at_stop(run)
  if run.stops then return end
  run.stops = true
  task.on("stopping", function()
    for _, shared in next, run == state and run.bells or {} do take_away(shared) end
  end)
end

--- In the background: a push waits for nothing.
local function say_where(shared, run)
  shared.address = hints.address()
  if not shared.address then return end
  take_away_at_stop(run)
  shared.publishing = core.spawn_apart(function(address)
    note("the address could not be put into the queue's list", shared.name,
      addresses.add(shared.store, shared.name, address))
  end, shared.address)
end

--- One who pushes to a queue from now on. Those of one process share what is said of them.
---@param store synod.Store  one that tells of no change
---@param name string  the queue's
---@return synod.Pusher
function bell.pusher(store, name)
  local run, key = current(), key_of(store, name)
  local shared = run.bells[key]
  if not shared then
    shared = { store = store, name = name, key = key, users = 0, holding = hints.holding(store, place_of(name)) }
    run.bells[key] = shared
    say_where(shared, run)
  end
  shared.users = shared.users + 1
  return setmetatable({ shared = shared, run = run }, Pusher)
end

--- Something was pushed: whoever waits looks now.
function Pusher:ring()
  local shared = self.shared
  hints.tell(shared.store, place_of(shared.name))
  -- a board tells all but the one who rings: those of this process are told here
  for hint in next, self.run.ears[shared.key] or {} do hint.told:set() end
end

--- It pushes no more: with the last of this process, its address goes out of the list.
function Pusher:close()
  local shared = self.shared
  if self.closed then return end
  self.closed = true
  shared.users = shared.users - 1
  if shared.users > 0 then return end
  self.run.bells[shared.key] = nil
  take_away(shared)
  shared.holding:close()
end

Pusher.__close = Pusher.close

---------------------------------------------------------------- who waits

---@class synod.Ear
---@field list string[]  those who push, as they were last read
local Ear = {}
Ear.__index = Ear

--- One who waits at a queue, with a hint of its own. Asks nothing yet.
---@param store synod.Store
---@param name string  the queue's
---@param hint synod.Hint
---@return synod.Ear|nil  nil: the store itself tells
function bell.listen(store, name, hint)
  if store:mark {} then return nil end
  local run, key = current(), key_of(store, name)
  run.ears[key] = run.ears[key] or {}
  run.ears[key][hint] = true
  return setmetatable({
    store = store, name = name, hint = hint, run = run, key = key, list = {}, missed = {}, pause = READ_S,
    read_at = -math.huge, read_before = -math.huge,
  }, Ear)
end

--- hints.on for the queue, for `listen`.
---@param store synod.Store
---@param name string
---@return synod.Hint
function bell.hint(store, name)
  return hints.on(store, place_of(name))
end

local function is_due(self, now)
  local since, before = now - self.read_at, now - self.read_before
  if self.heard_at then return since >= SETTLE_S and before >= 2 * READ_S end
  return since >= self.pause and not self.hint:standing()
end

local function read(self, now)
  self.read_at, self.read_before = now, self.read_at
  if self.heard_at and now - self.heard_at >= SETTLE_S then self.heard_at = nil end
  local list, err = addresses.read(self.store, self.name)
  if list then self.list = list else note("the queue's list could not be read", self.name, nil, err) end
  self.pause = self.list[1] and READ_S or math.min(self.pause * 2, READ_MAX_S)
end

--- Takes out of the list who has not stood for a while.
local function take_out(self, now)
  local missed, any = {}, false
  for _, address in ipairs(self.list) do
    if not self.hint:hears(address) then
      local m = self.missed[address] or { since = now, looks = 0 }
      m.looks = m.looks + 1
      m.gone = now - m.since >= GONE_S and m.looks >= GONE_LOOKS
      missed[address], any = m, any or m.gone
    end
  end
  self.missed = missed
  if not any then return end
  local function is_gone(address)
    return missed[address] and missed[address].gone and not self.hint:hears(address) or false
  end
  note("an address could not be taken out of the queue's list", self.name,
    addresses.remove(self.store, self.name, is_gone))
  self.missed = {} -- what could not be taken out has its time again
  for i = #self.list, 1, -1 do
    if is_gone(self.list[i]) then table.remove(self.list, i) end
  end
  self.hint:toward(self.list)
end

--- The queue was looked at. When there was nothing, it is time to see who pushes: at the first such look, then now and
--- then while the hint does not stand, or when there was something since, which may be from one who is not known yet.
---@param found boolean
function Ear:looked(found)
  local now = core.now()
  if found then
    self.heard_at = now
    return
  end
  if is_due(self, now) then read(self, now) end
  self.hint:toward(self.list)
  take_out(self, now)
end

function Ear:close()
  local ears = self.run.ears[self.key]
  if not ears then return end
  ears[self.hint] = nil
  if next(ears) == nil then self.run.ears[self.key] = nil end
end

Ear.__close = Ear.close

return bell
