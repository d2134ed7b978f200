-- lease: the service's leases, as scripts see them.
--
--   local lease <close>, err = blob:lease { duration = 60 }
--   if not lease then return nil, err end                       -- LeaseAlreadyPresent: someone else holds it
--   assert(blob:put("mine", { lease = lease.id }))
--   assert(lease:renew())                                       -- before it is over: nobody else does
--
-- The calls are the core's; this file says what they take and give. docs/reference/leases.md explains them.

local core = require "synod.core"

local lease = {}

---@class synod.LeaseOptions: synod.CallOptions
---@field if_match? string             of a blob only; an ETag, or "*": it exists
---@field if_none_match? string        of a blob only
---@field if_modified_since? number    seconds since 1970
---@field if_unmodified_since? number  seconds since 1970

---@class synod.AcquireOptions: synod.LeaseOptions
---@field duration? integer  15 to 60 seconds, or -1: for ever; 60 when absent
---@field id? string         a GUID; a random one when absent

---@class synod.Lease
---@field id string  a GUID in lower case; who knows it can use the lease
---@field renew fun(self, options?: synod.LeaseOptions): true|nil, synod.Refusal  the clock starts again
---@field change fun(self, id: string, options?: synod.LeaseOptions): true|nil, synod.Refusal  the clock goes on
---@field release fun(self, options?: synod.LeaseOptions): true|nil, synod.Refusal
---@field close fun(self)  releases it unless that is done; what comes of it is not said

--- The lease of a blob or container that is held under this id, by whomever took it. Nothing is asked of the store.
---@param place synod.Blob|synod.Container
---@param id string  a GUID; raises when it is none
---@return synod.Lease
function lease.of(place, id)
  return core.lease_handle(place, id)
end

return lease
