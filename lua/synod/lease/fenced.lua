-- fenced: writes that are refused where a newer fence is stored.
--
--   local props, err = fenced.put(held, blob, body, { timeout = 5 })
--   if not props and err.code == "Fenced" then return end     -- somebody held after us: what we know is of the past
--
-- The fence is that of `held`, from when it was acquired; what stands at the target is read, compared, and written
-- over under its ETag only. So an older holder's write never comes after a newer one's, whatever the clocks, pauses
-- and delays. A blob keeps the fence in its metadata, an entity as a property, both as `synod_fence`.
--
-- `held` is anything with a fence; writes to the leased blob itself also take its `blob` and `id`. synod.lease has them
-- as methods, and docs/reference/leases.md is the manual.

local core = require "synod.core"

local fenced = {}

local FENCE, VERSION = "synod_fence", "synod_v"
local LAYOUT = 1
local TRIES_MAX = 8 -- the target changed between our look and our write: each time somebody else has got on
local TIMEOUT_S = 10

---@class synod.Fence
---@field fence integer
---@field blob? synod.Blob
---@field id? string

---@class synod.FencedOptions: synod.CallOptions
---@field if_match? string       an ETag: only over this version; "*": it exists
---@field if_none_match? string  "*": it does not exist
---@field content_type? string   of put
---@field metadata? synod.Metadata  of put; what synod keeps there stays
---@field type? "block"|"page"|"append"  of put
---@field size? integer          of put
---@field lease? string          the target's own lease; that of `held` is added by itself

--- What can come of a change between our look and our write.
local MOVED = {
  ConditionNotMet = true, BlobAlreadyExists = true, BlobNotFound = true,
  UpdateConditionNotSatisfied = true, EntityAlreadyExists = true, ResourceNotFound = true,
}

---@class synod.FencedWrite
---@field held synod.Fence
---@field operation string
---@field target string
---@field options table  a copy of those given
---@field if_match? string       the caller's own conditions
---@field if_none_match? string
local Write = {}
Write.__index = Write

--- Raises, at the line that called the public function, what the caller got wrong.
local function begin(operation, held, target, given)
  local function wrong(message, ...) error(operation .. ": " .. message:format(...), 4) end
  if math.type(held.fence) ~= "integer" then wrong("this lease was taken without a fence") end
  if given ~= nil and type(given) ~= "table" then wrong("a table of options expected, got a %s", type(given)) end
  local options = {}
  for name, value in next, given or {} do options[name] = value end
  if options.if_none_match and options.if_none_match ~= "*" then wrong("if_none_match takes \"*\" only") end
  for name in next, options.metadata or {} do
    if tostring(name):lower():find "^synod_" then wrong("the metadata name '%s' is synod's own", name) end
  end
  return setmetatable({
    held = held, operation = operation, target = target, options = options,
    if_match = options.if_match, if_none_match = options.if_none_match,
  }, Write)
end

function Write:failure(code, message, ...)
  return core.new_error {
    code = code, operation = self.operation, target = self.target, message = message and message:format(...),
  }
end

--- What is wrong with writing over what is there: its fence and version, and its ETag (nil: it is not there).
function Write:refusal(there, version, etag)
  local fence = math.tointeger(tonumber(there))
  if version and (math.tointeger(tonumber(version)) or math.huge) > LAYOUT then return self:failure "NewerVersion" end
  if there and not fence then return self:failure("FenceRegressed", "the fence stored there is no number") end
  if fence and fence > self.held.fence then
    return self:failure("Fenced", "a newer fence is stored there: %d, and ours is %d", fence, self.held.fence)
  end
  if self.if_none_match and etag then return self:failure "BlobAlreadyExists" end
  if self.if_match and not (etag and (self.if_match == "*" or self.if_match == etag)) then
    return self:failure "ConditionNotMet"
  end
end

--- Looks and writes until it is written, refused, or out of time. `look(options)` gives what is there, or nil and err;
--- `fields(found)` its fence, version and ETag; `write(found, options)` writes over just that.
function Write:run(look, fields, write)
  local options, stop = self.options, core.now() + (self.options.timeout or TIMEOUT_S)
  local value, err
  for _ = 1, TRIES_MAX do
    options.timeout = math.max(stop - core.now(), 0)
    local found
    found, err = look { timeout = options.timeout, lease = options.lease }
    if not found and not MOVED[err.code] then return nil, err end
    local refused = self:refusal(fields(found or {}))
    if refused then return nil, refused end
    options.if_match, options.if_none_match = found and found.etag, not found and "*" or nil
    options.timeout = math.max(stop - core.now(), 0)
    value, err = write(found, options)
    if value or not MOVED[err.code] then return value, err end
  end
  return nil, err
end

---------------------------------------------------------------- blobs

local function blob_fields(found)
  local metadata = found.metadata or {}
  return metadata[FENCE], metadata[VERSION], found.etag
end

--- What the script gives, with what synod keeps there and our fence.
local function metadata_of(held, found, given)
  local metadata = {}
  for name, value in next, found and found.metadata or {} do
    if name:lower():find "^synod_" then metadata[name] = value end
  end
  for name, value in next, given or {} do metadata[name] = value end
  metadata[FENCE], metadata[VERSION] = ("%d"):format(held.fence), ("%d"):format(LAYOUT)
  return metadata
end

local function run_blob(self, blob, write)
  local held = self.held
  local own = held.blob and held.id and held.id ~= "" and tostring(held.blob) == tostring(blob)
  self.options.lease = self.options.lease or own and held.id or nil
  return self:run(function(options) return blob:head(options) end, blob_fields, write)
end

--- Writes a blob, or makes it, unless a newer fence is stored there.
---@param held synod.Fence
---@param blob synod.Blob
---@param body string
---@param given? synod.FencedOptions
---@return synod.Props|nil, synod.Refusal
function fenced.put(held, blob, body, given)
  local self = begin("held:put", held, tostring(blob), given)
  if type(body) ~= "string" then error("held:put: a body is a string here, since it may be sent again", 2) end
  local metadata = self.options.metadata
  return run_blob(self, blob, function(found, options)
    options.metadata = metadata_of(held, found, metadata)
    return blob:put(body, options)
  end)
end

--- Sets the metadata of a blob that is there, unless a newer fence is stored there. What synod keeps there stays.
---@param held synod.Fence
---@param blob synod.Blob
---@param metadata synod.Metadata
---@param given? synod.FencedOptions
---@return synod.Props|nil, synod.Refusal
function fenced.set_metadata(held, blob, metadata, given)
  local options = { metadata = metadata }
  for name, value in next, given or {} do options[name] = value end
  local self = begin("held:set_metadata", held, tostring(blob), options)
  self.options.metadata = nil
  return run_blob(self, blob, function(found, conditions)
    if not found then return nil, self:failure "BlobNotFound" end
    return blob:set_metadata(metadata_of(held, found, metadata), conditions)
  end)
end

---------------------------------------------------------------- entities

--- Merges properties into an entity, or inserts it, unless a newer fence is stored there.
---@param held synod.Fence
---@param entities synod.Table
---@param entity synod.Entity
---@param given? synod.CallOptions
---@return synod.Written|nil, synod.Refusal
function fenced.merge(held, entities, entity, given)
  local self = begin("held:merge", held, ("%s/%s"):format(entity.partition, entity.row), given)
  local mine = {}
  for name, value in next, entity do mine[name] = value end
  if mine[FENCE] ~= nil then error("held:merge: the property '" .. FENCE .. "' is synod's own", 2) end
  mine[FENCE] = held.fence
  local function look(options)
    options.lease, options.select = nil, { FENCE }
    return entities:get(entity.partition, entity.row, options)
  end
  return self:run(look, function(found) return found[FENCE], nil, found.etag end, function(found, options)
    options.if_none_match = nil
    if found then return entities:merge(mine, options) end
    options.if_match = nil
    return entities:insert(mine, options)
  end)
end

return fenced
