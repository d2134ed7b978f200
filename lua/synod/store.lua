-- synod.store: stores, containers and blobs.
--
--   local c = synod.store:container "flags"
--   assert(c:create())
--   local b = c:blob "startupWorkDone_0"
--   local props, err = b:put("", { type = "page", size = 512, if_none_match = "*" })
--   for item in c:list { prefix = "startupWorkDone_" } do print(item.name, item.etag) end
--
-- The objects are made by the core, and their calls are the core's: this file says which store is meant
-- and what the calls take and give. docs/reference/store.md explains them.

local core = require "synod.core"
require "synod.body"  -- adds the methods of large bodies to blobs
require "synod.lease" -- and leases that are kept

local store = {}

local configured -- the address that the command line gave
local current    -- the default store of this run
local addresses = setmetatable({}, { __mode = "k" }) -- of open stores; they may hold a secret

---@class synod.Error
---@field code string        the service's word (BlobNotFound) or synod's own (Timeout)
---@field message string     a sentence
---@field operation? string  what was attempted
---@field target? string     on what
---@field status? integer    the HTTP status
---@field request_id? string the service's
---@field retryable boolean  the same call may succeed later

---@class synod.CallOptions
---@field timeout? number      seconds for the whole call, 10
---@field try_timeout? number  seconds for one attempt, 3
---@field retries? integer     further attempts after the first, 8

---@class synod.Conditions: synod.CallOptions
---@field if_match? string             an ETag, or "*": it exists
---@field if_none_match? string        an ETag, or "*": it does not exist
---@field if_modified_since? number    seconds since 1970
---@field if_unmodified_since? number  seconds since 1970
---@field lease? string                the id of the lease that is held

---@class synod.PutOptions: synod.Conditions
---@field type? "block"|"page"|"append"  "block"
---@field size? integer                  bytes of a page blob, a multiple of 512
---@field content_type? string           application/octet-stream
---@field metadata? table<string, string>

---@class synod.GetOptions: synod.Conditions
---@field offset? integer  the first byte wanted, from 0
---@field length? integer  at most so many bytes

---@class synod.AppendOptions: synod.Conditions
---@field position? integer  only if the blob is so long

---@class synod.ListOptions: synod.CallOptions
---@field prefix? string
---@field metadata? boolean  with each item's metadata
---@field page? integer      items asked for at a time, up to 5000

---@class synod.Props
---@field etag string
---@field last_modified integer        seconds since 1970
---@field length? integer              bytes
---@field type? "block"|"page"|"append"
---@field content_type? string
---@field metadata? table<string, string>
---@field lease_state? "available"|"leased"|"expired"|"breaking"|"broken"
---@field lease_status? "locked"|"unlocked"
---@field lease_duration? "fixed"|"infinite"
---@field committed_block_count? integer  of an append blob
---@field append_offset? integer          where the append landed

---@class synod.Item: synod.Props
---@field name string

---@alias synod.Metadata table<string, string>
---@alias synod.Refusal synod.Error|nil
---@alias synod.Items fun(): synod.Item|nil
---@alias synod.ChangeOptions { container?: string, prefix?: string, timeout?: number, since?: integer }

---@class synod.Blob
---@field put fun(self, body: string|fun(): string|nil, options?: synod.PutOptions): synod.Props|nil, synod.Refusal
---@field get fun(self, options?: synod.GetOptions): string|nil, synod.Props|synod.Error
---@field head fun(self, options?: synod.Conditions): synod.Props|nil, synod.Refusal
---@field delete fun(self, options?: synod.Conditions): true|nil, synod.Refusal
---@field set_metadata fun(self, metadata: synod.Metadata, options?: synod.Conditions): synod.Props|nil, synod.Refusal
---@field reader fun(self, options?: synod.ReaderOptions): synod.BodyReader  see synod.body
---@field writer fun(self, options?: synod.WriterOptions): synod.BodyWriter
---@field copy_from fun(self, source: synod.Blob, options?: synod.CopyOptions): synod.Props|nil, synod.Refusal
---@field append fun(self, data: string, options?: synod.AppendOptions): synod.Props|nil, synod.Refusal
---@field lease fun(self, options?: synod.AcquireOptions): synod.Lease|nil, synod.Refusal  see synod.lease
---@field break_lease fun(self, period?: integer, options?: synod.LeaseOptions): integer|nil, synod.Refusal

---@class synod.Container
---@field create fun(self, options?: { metadata?: synod.Metadata }): true|nil, synod.Refusal  true also when it is there
---@field delete fun(self, options?: synod.Conditions): true|nil, synod.Refusal
---@field head fun(self, options?: synod.Conditions): synod.Props|nil, synod.Refusal
---@field set_metadata fun(self, metadata: synod.Metadata, options?: synod.Conditions): synod.Props|nil, synod.Refusal
---@field lease fun(self, options?: synod.AcquireOptions): synod.Lease|nil, synod.Refusal  see synod.lease
---@field break_lease fun(self, period?: integer, options?: synod.LeaseOptions): integer|nil, synod.Refusal
---@field blob fun(self, name: string): synod.Blob  raises for a name that the service forbids
---@field list fun(self, options?: synod.ListOptions): synod.Items  raises the err table when a page fails

---@class synod.Store
---@field container fun(self, name: string): synod.Container  raises for a name that the service forbids
---@field containers fun(self, options?: synod.ListOptions): synod.Items
---@field queue fun(self, name: string, options?: { base64?: boolean }): synod.Queue  raises as `container`; synod.queue
---@field queues fun(self, options?: synod.ListOptions): synod.Items
---@field table fun(self, name: string): synod.Table  raises for a name that the service forbids; see synod.table
---@field tables fun(self, options?: synod.CallOptions): synod.Items
---@field changed fun(self, options: synod.ChangeOptions): boolean, string?, integer?
---@field mark fun(self, options: { container?: string, prefix?: string }): integer|nil
---@field usage fun(self, options?: { outcomes?: boolean }): table<string, integer|table<string, integer>>  transactions
---@field kind fun(self): "embedded"|"memory"|"azure"
---@field name fun(self): string  which one it is, the same for all who have it open, without any secret
---@field is_open fun(self): boolean
---@field close fun(self)

--- Opens a store. It is closed by its `close`, and at the latest when the run ends.
---@param url string  embedded:PATH[?relaxed], memory:, azure, or a connection string
---@return synod.Store|nil store, synod.Refusal err
function store.open(url)
  if type(url) ~= "string" then
    error(("synod.open: the store's address is a string, not a %s"):format(type(url)), 2)
  end
  local opened, err = core.open_store(url)
  if opened then addresses[opened] = url end
  return opened, err
end

--- Where a store was opened, for who must open the same one; it may hold a secret. nil: not by us. "": the default one.
---@param opened synod.Store
---@return string|nil
function store.address_of(opened)
  return opened == current and "" or addresses[opened]
end

--- The store that the command line names; it wins over SYNOD_STORE.
---@param url string|nil
function store.configure(url)
  configured = url
end

--- The default store's address: the command line's, the environment's, or this user's own file, which is the
--- same for every command and folder, so that two who name the same lock meet.
---@return string|nil url, synod.Refusal err
function store.url()
  local named = configured or os.getenv "SYNOD_STORE"
  if named and named ~= "" then return named end
  local state, home = os.getenv "XDG_STATE_HOME", os.getenv "HOME"
  if state and state ~= "" then return "embedded:" .. state .. "/synod/store.db" end
  if home and home ~= "" then return "embedded:" .. home .. "/.local/state/synod/store.db" end
  return nil, core.new_error {
    code = "Usage", operation = "find the default store",
    message = "neither HOME nor XDG_STATE_HOME is set; name a store with --store or SYNOD_STORE",
  }
end

--- The default store, opened when it is first needed in a run; raises the err table when that fails.
---@return synod.Store
function store.default()
  if not (current and current:is_open()) then
    local url, err = store.url()
    if url then
      current, err = core.open_store(url)
    end
    if err then error(err, 0) end
  end
  return current
end

return store
