-- estate: what becomes of a lease whose holder is known to be dead.
--
--   estate.give_back(blob, entry)                   it is free at once
--   local held = estate.resume(blob, entry, { ttl = 15 })      or it is ours, without an instant in which it was free
--
-- For supervisors, of processes that they have reaped, and with what those had noted (ledger.lua): nobody else can tell
-- the dead from the slow. docs/reference/leases.md is the manual.

local core = require "synod.core"
local lease = require "synod.lease"
local mark = require "synod.lease.mark"

local estate = {}

local GONE = {
  LeaseIdMismatchWithLeaseOperation = true, LeaseNotPresentWithLeaseOperation = true, BlobNotFound = true,
  ContainerNotFound = true,
}
local CLEAR_TRIES = 4

--- Takes a record away that is still the one of this fence.
local function clear_record(blob, fence, given)
  local err
  for _ = 1, CLEAR_TRIES do
    local props, seen
    props, err = blob:head(given)
    if props then seen, err = mark.of(props) end
    if not seen then break end
    if seen.kind ~= "record" or seen.fence ~= fence then return true end
    local kept = {}
    for name, value in next, props.metadata do
      if not name:find "^synod_" or name == "synod_fence" or name == "synod_v" then kept[name] = value end
    end
    local done
    done, err = blob:set_metadata(kept, {
      if_match = props.etag, timeout = given and given.timeout, retries = given and given.retries,
    })
    if done then return true end
    if err.code ~= "ConditionNotMet" then break end
  end
  if GONE[err.code] then return true end
  return nil, err
end

--- Gives back what a process held that is known to be dead: a supervisor's business, of processes that it has reaped.
---@param blob synod.Blob
---@param entry synod.lease.ledger.Entry  what it had noted
---@param given? synod.CallOptions
---@return true|nil, synod.Error? err  true also when it has passed on already
function estate.give_back(blob, entry, given)
  if entry.kind == "record" then return clear_record(blob, entry.fence, given) end
  local done, err = lease.of(blob, entry.id):release(given)
  if done or GONE[err.code] then return true end
  return nil, err
end

--- Takes over what a dead process held: the service's lease is changed to a fresh id, under which it is renewed and the
--- fence raised before it is held. The old id is worth nothing from then on. A record, which has no id, is given back
--- and taken again.
---@param blob synod.Blob
---@param entry synod.lease.ledger.Entry
---@param given? synod.Contender.Options  as of a contender
---@return synod.Held|nil, synod.Error? err  LeaseAlreadyPresent: it has passed on
function estate.resume(blob, entry, given)
  if entry.kind == "record" then
    local done, err = estate.give_back(blob, entry)
    if not done then return nil, err end
    return lease.contender(blob, given):try()
  end
  local id = lease.draw_id()
  local changed, err = lease.of(blob, entry.id):change(id)
  if not changed then
    if not GONE[err.code] then return nil, err end
    return nil, core.new_error { code = "LeaseAlreadyPresent", operation = "resume the lease of",
      target = tostring(blob), message = "it has passed on" }
  end
  local held
  held, err = lease.contender(blob, given, id):try()
  if not held then lease.of(blob, id):release() end
  return held, err
end

return estate
