-- table: tables and entities, as scripts see them.
--
--   local t = synod.store:table "instances"
--   assert(t:create())
--   local e = { partition = "worker", row = "3", state = "ready", port = synod.int32(8080), load = 0.5 }
--   local written, err = t:insert(e)
--   assert(t:merge({ partition = "worker", row = "3", state = "gone" }, { if_match = written.etag }))
--   for each in t:query { partition = "worker", filter = "load lt 0.8" } do print(each.row, each.state) end
--
-- The calls are the core's; this file says what they take and give, and has the types that Lua lacks.
-- docs/reference/tables.md explains them.

local core = require "synod.core"

local tables = {}

---@class synod.Value
---@field type "int32"|"time"|"guid"|"binary"
---@field value integer|number|string  an int32; seconds since 1970; the GUID's text; the bytes

---@alias synod.Property string|integer|number|boolean|synod.Value

---@class synod.Entity
---@field partition string
---@field row string
---@field etag? string            given; ignored in writes
---@field timestamp? synod.Value  the last write, given; ignored in writes
---@field [string] synod.Property

---@class synod.EntityWriteOptions: synod.CallOptions
---@field if_match? string  an ETag as it came; "*" when absent: whichever version, but it exists

---@class synod.UpsertOptions: synod.CallOptions
---@field mode? "replace"|"merge"  "replace"

---@class synod.SelectOptions: synod.CallOptions
---@field select? string[]  only these properties

---@class synod.QueryOptions: synod.SelectOptions
---@field partition? string
---@field from? string    the first row wanted
---@field to? string      the last row wanted
---@field filter? string  OData: "age ge 18 and not (name eq 'O''Neil')"
---@field page? integer   entities asked for at a time, up to 1000

---@class synod.BatchOperation
---@field insert? synod.Entity
---@field replace? synod.Entity
---@field merge? synod.Entity
---@field upsert? synod.Entity
---@field delete? synod.Entity  only its keys count
---@field if_match? string      of replace, merge, delete
---@field mode? "replace"|"merge"  of upsert

---@alias synod.Written { etag: string|nil }

---@class synod.Table
---@field create fun(self, options?: synod.CallOptions): true|nil, synod.Refusal  true also when it is there
---@field drop fun(self, options?: synod.CallOptions): true|nil, synod.Refusal  the table with all its entities
---@field insert fun(self, e: synod.Entity, options?: synod.CallOptions): synod.Written|nil, synod.Refusal
---@field get fun(self, partition: string, row: string, options?: synod.SelectOptions): synod.Entity|nil, synod.Refusal
---@field replace fun(self, e: synod.Entity, options?: synod.EntityWriteOptions): synod.Written|nil, synod.Refusal
---@field merge fun(self, e: synod.Entity, options?: synod.EntityWriteOptions): synod.Written|nil, synod.Refusal
---@field upsert fun(self, e: synod.Entity, options?: synod.UpsertOptions): synod.Written|nil, synod.Refusal
---@field delete fun(self, partition: string, row: string, options?: synod.EntityWriteOptions): true|nil, synod.Refusal
---@field query fun(self, options?: synod.QueryOptions): fun(): synod.Entity|nil  raises the err table when a page fails
---@field batch fun(self, operations: synod.BatchOperation[], options?: synod.CallOptions): table|nil, synod.Refusal

--- A whole number of 32 bits (Edm.Int32).
---@param n integer
---@return synod.Value
tables.int32 = core.int32

--- A time (Edm.DateTime) with 7 fraction digits.
---@param at string|number  such as "2026-01-02T03:04:05.1234567Z", or seconds since 1970
---@return synod.Value
tables.time = core.time_value

--- A GUID (Edm.Guid).
---@param text string
---@return synod.Value
tables.guid = core.guid

--- Bytes (Edm.Binary).
---@param bytes string
---@return synod.Value
tables.binary = core.binary

return tables
