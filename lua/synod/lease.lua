-- lease: the right to be the only one, as scripts see it: raw, or kept by the core.
--
--   local lease <close>, err = blob:lease { duration = 60 }     -- the service's lease, no more: nobody renews it
--
--   local held <close>, err = blob:lease { duration = 15, keep = true, fence = true }    -- renewed, and fenced
--
--   local contender = lease.contender(blob, { ttl = 15, purpose = "mutex" })
--   local held <close>, err = contender:take { timeout = 60 }   -- Timeout: who holds it, and since when
--   if held:held() then ... held.fence ... end
--
-- The state machine is the core's (runtime/lease/keeper.h); this file waits, and says what the calls take and give.
-- docs/reference/leases.md explains them.

local backoff = require "synod.backoff"
local core = require "synod.core"
local hints = require "synod.hints"
local held_lease = require "synod.lease.held"
local mark = require "synod.lease.mark"
local new_nonce = require "synod.nonce"
local options = require "synod.options"
local plain = require "synod.lease.plain"
local plan = require "synod.plan"

local lease = {}

local TTL_S = 15
local TRY_S = 10          -- one try of contender:try
local DURATION_S = 60     -- of blob:lease

---@class synod.LeaseOptions: synod.CallOptions
---@field if_match? string             of a blob only; an ETag, or "*": it exists
---@field if_none_match? string        of a blob only
---@field if_modified_since? number    seconds since 1970
---@field if_unmodified_since? number  seconds since 1970

---@class synod.AcquireOptions: synod.LeaseOptions
---@field duration? integer  15 to 60 seconds, or -1: for ever; 60 when absent
---@field id? string         a GUID; a random one when absent
---@field keep? boolean      of a blob only; the core renews it until it is released or lost: the result is a synod.Held
---@field fence? boolean     of a blob only; the fence in the blob's metadata is raised first. It is kept, too
---@field purpose? string    with fence: what for, for people

---@class synod.Lease
---@field id string  a GUID in lower case; who knows it can use the lease
---@field renew fun(self, options?: synod.LeaseOptions): true|nil, synod.Refusal  the clock starts again
---@field change fun(self, id: string, options?: synod.LeaseOptions): true|nil, synod.Refusal  the clock goes on
---@field release fun(self, options?: synod.LeaseOptions): true|nil, synod.Refusal
---@field close fun(self)  releases it unless that is done; what comes of it is not said
---@field held fun(self): boolean      is it ours, by our own clock; these four are in lease/plain.lua
---@field remaining fun(self): number  seconds until it is lost, unless it is renewed
---@field wait_lost fun(self, timeout?: number): synod.Refusal|nil
---@field guard fun(self, fn: function, ...: any): ...

--- The lease of a blob or container that is held under this id, by whomever took it. Nothing is asked of the store.
---@param place synod.Blob|synod.Container
---@param id string  a GUID; raises when it is none
---@return synod.Lease
function lease.of(place, id)
  return core.lease_handle(place, id)
end

lease.look = mark.look -- who holds a blob, as its metadata tell

--- A fresh lease id, random.
---@return string
function lease.draw_id()
  local digits = new_nonce(16)
  return (digits:gsub("^(%x%x%x%x%x%x%x%x)(%x%x%x%x)(%x%x%x%x)(%x%x%x%x)", "%1-%2-%3-%4-"))
end

--- Who takes a lease, for its metadata. A program that was given no name is known by its host and process.
local function signature(who)
  local host, pid = core.host_name(), core.process_id()
  return { holder = who.id or ("%s/%d"):format(host, pid), host = host, pid = pid }
end

local function instance_of(o)
  return o.instance or require("synod").instance
end

---------------------------------------------------------------- contenders

---@class synod.Contender.Options
---@field ttl? number          15 to 60 whole seconds: the store's own lease; 0.5 to below 15: a record (15)
---@field purpose? string      for people: it stands in the metadata
---@field hints? synod.Hint  what tells of the holder's end, where the store does not (one of its own, on Azure)
---@field renew? number        seconds from one renewal to the next (a third of the ttl)
---@field try? number          seconds that one attempt may take (3, or a fifth of the ttl)
---@field instance? synod.Instance  who this is (synod.instance)

local CONTENDER = {
  ttl = "positive", purpose = "string", hints = "table", renew = "positive", try = "positive", instance = "table",
}

---@class synod.Contender
---@field blob synod.Blob
local Contender = {}
Contender.__index = Contender
Contender.__name = "synod.Contender"

--- One who would hold the lease of this blob. It remembers what it saw: one object for each, not one for each try.
--- Touches no store. Container and blob are made when they are absent.
---@param blob synod.Blob
---@param given? synod.Contender.Options
---@param id? string  a GUID under which it may be held already, for us: the first try takes it over
---@return synod.Contender
function lease.contender(blob, given, id)
  local o = options.read("lease.contender", given, CONTENDER)
  o.ttl = o.ttl or TTL_S
  local asked = signature(instance_of(o))
  asked.ttl, asked.renew, asked.try, asked.purpose = o.ttl, o.renew, o.try, o.purpose
  asked.fence, asked.make, asked.id = true, true, id
  asked.hints = core.place_of(blob):kind() == "azure" and hints.address() or nil
  local keeper, why = core.keeper(blob, asked)
  if not keeper then options.refuse("lease.contender: %s", why) end
  return setmetatable({ blob = blob, keeper = keeper, options = o }, Contender)
end

--- One look, and when it looks free, an attempt to take it. A task that is cancelled meanwhile gives back what it took.
---@param timeout? number  seconds (10)
---@return synod.Held|nil held, synod.Error? err  LeaseAlreadyPresent: it is held; err.holder, err.host, err.since,
---  err.purpose and err.fence say by whom, as far as the metadata tell; err.again in how many seconds it may be free
---  without anybody's doing, when that is known. FenceRegressed; what the store refuses
function Contender:try(timeout)
  local keeper = self.keeper
  local taken, err = keeper:try(timeout or TRY_S)
  if not taken then return nil, err end
  self.keeper = keeper:successor()
  return held_lease.new(self.blob, keeper)
end

local function is_held(err)
  return err.code == "LeaseAlreadyPresent"
end

local function not_free(timeout, last)
  local by = last.holder and (": %s%s holds it%s"):format(
    last.holder, last.host and " on " .. last.host or "", last.since and " since " .. last.since or "") or ""
  return core.new_error {
    code = "Timeout", operation = "take the lease of", target = last.target,
    message = ("not free within %g s%s"):format(timeout, by),
    holder = last.holder, host = last.host, since = last.since, purpose = last.purpose, fence = last.fence,
  }
end

local TAKE = { timeout = "seconds" }

--- What tells of the holder's end: nil where the store does. The second is ours to close.
local function hint_of(self, store, container, name)
  if self.options.hints then return self.options.hints end
  if store:kind() ~= "azure" then return nil end
  local own = hints.on(store, container .. "/" .. name)
  return own, own
end

--- Tries until it holds. Where the store tells of changes, each one is followed by a look; a lease that runs out makes
--- none, so there is a look each fifteenth of the ttl as well, and with jitter where the store tells nothing.
---@param given? { timeout?: number }  seconds; 0: try once; nothing: for ever
---@return synod.Held|nil held, synod.Error? err  Timeout, with the holder as `try` gives it; any other refusal of `try`
function Contender:take(given)
  local o = options.read("contender:take", given, TAKE)
  local store, container, name = core.place_of(self.blob)
  local pause, shortest = plan.look_interval(self.options.ttl)
  local hint, own = hint_of(self, store, container, name)
  local _ <close> = own
  local last
  local outcome, err = backoff.poll(function(left)
    local held, refusal = self:try(left and math.max(left, pause))
    if held then return held end
    last = refusal
    if hint then hint:toward(refusal.hints) end
    return not is_held(refusal) and "refused", refusal
  end, {
    store = store, container = container, prefix = name, timeout = o.timeout, hint = hint,
    min = shortest, max = pause, recheck = pause,
  })
  if outcome == "refused" then return nil, err end
  if outcome then return outcome end
  return nil, not_free(o.timeout, last)
end

---------------------------------------------------------------- blob:lease

local methods, of_containers = core.blob_methods(), core.container_methods()
local raw, raw_of_container = methods.lease, of_containers.lease

local KEPT = { duration = "count", id = "string", keep = "boolean", fence = "boolean", purpose = "string",
               timeout = "seconds" }

local function take_kept(blob, given)
  local o = options.read("blob:lease", given, KEPT)
  if o.keep == false then options.refuse("blob:lease: a lease with a fence is kept: leave out 'keep'") end
  local asked = signature(require("synod").instance)
  asked.ttl, asked.id, asked.fence, asked.purpose = o.duration or DURATION_S, o.id, o.fence, o.purpose
  if asked.ttl < 15 then options.refuse("blob:lease: option 'duration': 15 to 60 whole seconds expected") end
  local keeper, why = core.keeper(blob, asked)
  if not keeper then options.refuse("blob:lease: option 'duration': %s", why) end
  local taken, err = keeper:try(o.timeout or TRY_S)
  if not taken then return nil, err end
  return held_lease.new(blob, keeper)
end

local function take_plain(call, place, given, blob)
  local sent = core.instant()
  local taken, err = call(place, given)
  if not taken then return nil, err end
  return plain.begin(taken, sent, given and given.duration or DURATION_S, blob)
end

function methods:lease(given)
  if type(given) == "table" and (given.keep or given.fence) then return take_kept(self, given) end
  options.check_call(self, "lease", "lease", given)
  return take_plain(raw, self, given, self)
end

function of_containers:lease(given)
  options.check_call(self, "lease", "lease", given)
  return take_plain(raw_of_container, self, given)
end

return lease
