-- semaphore: at most so many at a time.
--
--   local semaphore = require "synod.semaphore"
--   local uploads = semaphore.new { name = "uploads", permits = 3 }
--   local permit <close> = assert(uploads:acquire { timeout = 30 })
--
-- Each permit is a place of its own, semaphore/<name>/1 to <permits>, which one instance holds at a time. Who waits
-- lists them and tries those that look free, in an order of its own, so that many who come at once do not meet.
--
-- How many permits there are is written down beside them, so that an instance that was made with another number is
-- refused instead of letting more in. docs/reference/semaphore.md is the manual.

local backoff = require "synod.backoff"
local core = require "synod.core"
local hints = require "synod.hints"
local options = require "synod.options"
local plan = require "synod.plan"
local seat = require "synod.seat"

local semaphore = {}

local PERMITS_MAX = 1000
local LAYOUT = "1" -- synod_v
local CALL_MIN_S = 0.5
local LIST = "list the blobs" -- what the err of a page that failed says was attempted
local RECORD = "permits"

---@class synod.Semaphore.Options: synod.Seat.Options
---@field permits integer  how many may hold at a time; the same for all instances

local NEW = seat.kinds { permits = "count" }
local WAIT = { timeout = "seconds" }

---@class synod.Semaphore
local Semaphore = {}
Semaphore.__index = Semaphore
Semaphore.__name = "synod.Semaphore"

---@class synod.Permit  to be closed
---@field slot integer   which of the permits
---@field fence integer  of this slot
---@field held fun(self): boolean        is it ours, by our own clock
---@field remaining fun(self): number    seconds until it is lost, unless it is renewed
---@field wait_lost fun(self, timeout?: number): synod.Error|nil
local Permit = seat.class "synod.Permit"

--- Makes no request.
---@param given synod.Semaphore.Options
---@return synod.Semaphore
function semaphore.new(given)
  local o, problem = seat.complete(options.read("semaphore.new", given, NEW), "uploads")
  if not problem and not o.permits then problem = "how many may hold at a time is needed: permits = 3" end
  if not problem and o.permits > PERMITS_MAX then
    problem = ("permits = %d is more than a semaphore takes (%d)"):format(o.permits, PERMITS_MAX)
  end
  if problem then options.refuse("semaphore.new: %s", problem) end
  o.purpose = o.purpose or "semaphore"
  plan.note { policy = "semaphore", name = o.name, ttl = o.ttl, renew = o.timing.renew, told = "store" }
  return setmetatable({
    options = o, name = "semaphore/" .. o.name .. "/", container = o.store:container(o.container), seats = {},
  }, Semaphore)
end

local function seat_of(self, slot)
  self.seats[slot] = self.seats[slot] or seat.new(self.options, self.name .. slot)
  return self.seats[slot]
end

local function failure(self, code, message)
  return core.new_error {
    code = code, operation = "acquire", target = ("a permit of the semaphore '%s'"):format(self.options.name),
    message = message,
  }
end

---------------------------------------------------------------- what is there

--- The slots that are held, and what is written down; raises what the store refuses.
local function read_list(self, timeout)
  local held, said = {}, nil
  for item in self.container:list { prefix = self.name, metadata = true, timeout = timeout } do
    local word = item.name:sub(#self.name + 1)
    local slot = math.tointeger(tonumber(word))
    if slot then
      local taken, mark = seat_of(self, slot).sight:look(item)
      if taken == nil then error(mark, 0) end
      held[slot] = taken and mark or nil
    elseif word == RECORD then
      said = item
    end
  end
  return held, said
end

---@return table<integer, synod.Mark>|nil held, synod.Item|synod.Error|nil said
local function look(self, timeout)
  local ok, held, said = pcall(read_list, self, timeout)
  if ok then return held, said end
  local err = held
  if type(err) ~= "table" or not (err.operation == LIST or err.code == "NewerVersion") then error(err, 0) end
  if err.code == "ContainerNotFound" then return {} end
  return nil, err
end

local function write_down(self, permits, how)
  how.metadata = { synod_v = LAYOUT, synod_permits = ("%d"):format(permits) }
  local blob = self.container:blob(self.name .. RECORD)
  local props, err = blob:put(("%d\n"):format(permits), how)
  if not props and err.code == "ContainerNotFound" then
    local made, why = self.container:create()
    if not made then return nil, why end
    props, err = blob:put(("%d\n"):format(permits), how)
  end
  return props, err
end

--- Whether all are of one mind about how many permits there are. The first of all says it.
---@return true|nil, synod.Error? err  nil without one: look again
local function agree(self, said)
  local permits = self.options.permits
  if not said then
    local _, err = write_down(self, permits, { if_none_match = "*" })
    if err and err.code ~= "BlobAlreadyExists" and err.code ~= "ConditionNotMet" then return nil, err end
    return nil
  end
  local version = said.metadata.synod_v
  if version ~= LAYOUT then return nil, failure(self, "NewerVersion") end
  local there = math.tointeger(tonumber(said.metadata.synod_permits))
  if there == permits then return true end
  return nil, failure(self, "Usage",
    ("this instance was made with permits = %d, and the store says %s: give all the same, or call resize(%d)"):format(
      permits, tostring(there), permits))
end

---------------------------------------------------------------- acquiring

--- The slots that are worth a try, in an order of our own. None while one beyond our number is out: there were more
--- permits. Of a record, the look of a try is what finds out that it is dead: it has to have seen it for a whole ttl.
local function free_slots(self, held)
  local slots, permits = {}, self.options.permits
  for slot in next, held do
    if slot > permits then return slots end
  end
  for slot = 1, permits do
    if not held[slot] or held[slot].kind == "record" then
      table.insert(slots, math.floor(core.random() * (#slots + 1)) + 1, slot)
    end
  end
  return slots
end

--- Tries one slot. Somebody may have made them fewer since we looked, and found nobody beyond the new number: so what
--- was agreed is looked at again before the permit is ours.
---@return synod.Permit|nil permit, synod.Error? err  nil without one: the number was not there any more
local function try_slot(self, slot, timeout)
  local lease, err = seat_of(self, slot):try(timeout)
  if not lease then return nil, err end
  local agreed, said
  local _ <close> = setmetatable({}, { __close = function() if not agreed then lease:release() end end })
  said, err = self.container:blob(self.name .. RECORD):head { timeout = timeout }
  if not said and err.code ~= "BlobNotFound" then return nil, err end
  agreed, err = agree(self, said)
  if not agreed then return nil, err end
  return setmetatable({ lease = lease, fence = lease.fence, slot = slot, semaphore = self }, Permit)
end

--- One round: look, and try what looks free.
---@return boolean|nil settled, synod.Permit? permit, synod.Error? err
local function try_all(self, left)
  local timeout = left and math.max(left, CALL_MIN_S)
  local held, said = look(self, timeout)
  if not held then return not said.retryable, nil, said end
  local agreed, err = agree(self, said)
  if err then return not err.retryable, nil, err end
  if not agreed then return try_all(self, left) end
  local refusal = failure(self, "Timeout", ("all %d are out"):format(self.options.permits))
  for _, slot in ipairs(free_slots(self, held)) do
    local permit, why = try_slot(self, slot, timeout)
    if permit then return true, permit end
    if not why then return try_all(self, left) end
    if why.code ~= "LeaseAlreadyPresent" then
      if not why.retryable then return true, nil, why end
      refusal = why
    end
  end
  return nil, nil, refusal
end

local function acquire(self, timeout)
  local azure = self.options.store:kind() == "azure"
  local hint <close> = azure and hints.on(self.options.store, self.options.container .. "/" .. self.name) or nil
  local seat_one = seat_of(self, 1)
  local place = seat_one:place(timeout, hint)
  place.prefix = self.name
  local refusal
  local settled, permit, err = backoff.poll(function(left)
    local done, permit, why = try_all(self, left)
    refusal = why
    local answered = done or why.operation == "acquire" -- all are out: the store has said so
    if not seat_one:bears(not answered and why or nil) then return true, nil, why end
    return done, permit, why
  end, place)
  seat_one:bears()
  if settled then return permit, err end
  if refusal.code == "Timeout" and refusal.operation == "acquire" then
    refusal = failure(self, "Timeout", ("all %d were out for %g s"):format(self.options.permits, timeout))
  end
  return nil, refusal
end

--- Waits for a permit. A cancel meanwhile leaves nothing behind.
---@param given? { timeout?: number }  seconds; 0: try once; nothing: for ever
---@return synod.Permit|nil, synod.Error? err  Timeout; Usage: others were made with another number of permits; what the
---  store refuses
function Semaphore:acquire(given)
  given = options.read("semaphore:acquire", given, WAIT)
  return acquire(self, given.timeout)
end

--- Runs fn(permit) while one is ours, guarded: stopped before it could be another's. Then it is given back.
---@param fn fun(permit: synod.Permit): ...
---@param given? { timeout?: number }
---@return ...  fn's results, or nil, err when there was none to be had; an error in fn is raised, LeaseLost too
function Semaphore:with(fn, given)
  given = options.read("semaphore:with", given, WAIT)
  if type(fn) ~= "function" then options.refuse("semaphore:with: a function expected, got %s", type(fn)) end
  local permit <close>, err = acquire(self, given.timeout)
  if not permit then return nil, err end
  return seat.run(permit.lease, nil, fn, permit)
end

--- Who has permits now, by one list.
---@return { slot: integer, id: string, since?: string, fence?: integer }[]|nil holders, synod.Error? err
function Semaphore:holders()
  local held, err = look(self)
  if not held then return nil, err end
  local list = {}
  for slot, mark in next, held do
    list[#list + 1] = { slot = slot, id = mark.holder, since = mark.since, fence = mark.fence }
  end
  table.sort(list, function(a, b) return a.slot < b.slot end)
  return list
end

--- Changes how many permits there are, for all; instances that were made with another number are refused from now on.
--- With fewer, nobody gets one until those beyond the new number have been given back.
---@param permits integer
---@return true|nil, synod.Error? err
function Semaphore:resize(permits)
  if math.type(permits) ~= "integer" or permits < 1 or permits > PERMITS_MAX then
    options.refuse("semaphore:resize: a whole number from 1 to %d expected, got %s", PERMITS_MAX, tostring(permits))
  end
  local written, err = write_down(self, permits, {})
  if not written then return nil, err end
  self.options.permits = permits
  return true
end

--- Gives the permit back. It is not held from the beginning of the call on.
---@return true|nil, synod.Error? err  LeaseLost: it had been lost before; what the store refuses
function Permit:release()
  local released, err = self.lease:release()
  local o = self.semaphore.options
  if o.store:kind() == "azure" then hints.tell(o.store, o.container .. "/" .. self.semaphore.name) end
  return released, err
end

Permit.__close = Permit.release

return semaphore
