-- held: a lease that the core keeps: renewed in the background, and over when our own clock says so.
--
--   held:held()         is it ours at this instant?             held.fence   the fencing token, for this holding
--   held:remaining()    seconds until it would be lost          held.id      the lease id: as good as the lease
--   held:wait_lost(5)   err LeaseLost, or nil                   held:release()
--   held:guard(fn, ...) fn's results; fn is stopped before the lease could be another's
--   held:put(blob, body, { ... })   refused where a newer fence is stored; set_metadata and merge too
--
-- Made by synod.lease: contender:try, contender:take, blob:lease { keep = true }.

local core = require "synod.core"
local fenced = require "synod.lease.fenced"
local guard = require "synod.lease.guard"
local hints = require "synod.hints"
local ledger = require "synod.lease.ledger"

local held = {}

---@class synod.Held
---@field fence? integer  grows with each holder of the blob; does not change while this one holds
---@field id string       a GUID; of a short lease, which has none, ""
---@field blob synod.Blob
local Held = {}
Held.__index = Held
Held.__name = "synod.Held"

--- Who has to know of a holding: a supervisor, which would give it back if we died, and those who wait for its end.
local Bonds = {}
Bonds.__index = Bonds

function Bonds.__close(self)
  if self.line then self.line:drop() end
  if self.holding then self.holding:close() end
end

local function bonds_of(blob, keeper)
  local store, container, name = core.place_of(blob)
  local url = name and require("synod.store").address_of(store)
  local bonds = {}
  if url then
    bonds.line = ledger.hold {
      url = url, container = container, name = name, kind = keeper.id == "" and "record" or "service", id = keeper.id,
      fence = keeper.fence or 0,
    }
  end
  if name and store:kind() == "azure" then bonds.holding = hints.holding(store, container .. "/" .. name) end
  return setmetatable(bonds, Bonds)
end

--- What the core's keeper has taken.
---@return synod.Held
function held.new(blob, keeper)
  return setmetatable({
    blob = blob, keeper = keeper, fence = keeper.fence, id = keeper.id, bonds = bonds_of(blob, keeper),
  }, Held)
end

--- Is the lease ours, by our own clock? False from the soft stop on, and after the loss, release or change.
---@return boolean
function Held:held()
  return self.keeper:held()
end

--- The core renews it by itself: this only says whether it is held, for whoever treats all leases alike.
---@return true|nil, synod.Error? err  LeaseLost
function Held:renew()
  if self:held() then return true end
  return nil, self:wait_lost(0) or core.new_error {
    code = "LeaseLost", operation = "renew", target = tostring(self), message = "it was given back",
  }
end

--- Seconds to the soft stop, when the lease is lost unless it is renewed before; 0 when it is not held.
---@return number
function Held:remaining()
  return self.keeper:remaining()
end

--- Waits until the lease is lost.
---@param timeout? number  seconds; nothing: for ever
---@return synod.Error|nil err  LeaseLost, and how; nil: it was released, or the time is over
function Held:wait_lost(timeout)
  return self.keeper:wait_lost(timeout)
end

--- Gives the lease back. It is not held from the beginning of the call on. What it guarded must have ended before.
---@return true|nil, synod.Error? err  LeaseLost: it had been lost before; what the store refuses
function Held:release()
  if self.leaving then -- somebody gives it back already: it is free when that has ended
    self.leaving:wait()
    return self.keeper:release()
  end
  self.leaving = core.event()
  local _ <close> = setmetatable({}, { __close = function() self.leaving:set() end })
  local _ <close> = self.bonds -- who waits is told when it is free
  return self.keeper:release()
end

--- Hands the lease over to another's id, without a free instant. Whatever comes of it, it is not held from the
--- beginning of the call on. Not for short leases: Unsupported, and it stays held.
---@param id string  a GUID, which the successor has proposed
---@return true|nil, synod.Error? err
function Held:change(id)
  local _ <close> = self.id ~= "" and self.bonds or nil -- what stays held is still given back when we die
  return self.keeper:change(id)
end

--- Runs fn as a task of its own, and stops it before the lease could be another's. What it starts (tasks, connections,
--- commands) belongs to the guard, and has ended when this returns. Does not release the lease.
---@param fn function
---@param ... any  its arguments
---@return ...  fn's results; its error is raised, LeaseLost too
function Held:guard(fn, ...)
  if type(fn) ~= "function" then error("held:guard: a function expected, got " .. type(fn), 2) end
  return guard.run(self.keeper:scope(), fn, ...)
end

--- How it stands: state, fence, renewals so far, and when (as synod.now) the last was confirmed, and the two stops are.
---@return table
function Held:status()
  return self.keeper:status()
end

--- Writes with our fence, refused (Fenced) where a newer one is stored; see synod.lease.fenced.
Held.put, Held.set_metadata, Held.merge = fenced.put, fenced.set_metadata, fenced.merge

--- The end of a to-be-closed variable: gives it back, whatever comes of it.
function Held:close()
  self:release()
end

Held.__close = Held.close

function Held:__tostring()
  return tostring(self.keeper)
end

--- The instants of a lease with this ttl, in seconds from the sending of the last renewal that was confirmed.
---@param ttl number
---@return table|nil times, string? why  it is no ttl, and why not
function held.times(ttl)
  return core.lease_timing(ttl)
end

return held
