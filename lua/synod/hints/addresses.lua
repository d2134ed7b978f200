-- addresses: where those who push to a queue can be asked, as a list in the store: the metadata synod_hints of the blob
-- workqueue/<queue> in container locks.
--
--   addresses.add(store, "tasks", "10.0.0.7:7000")
--   local list = addresses.read(store, "tasks")
--   addresses.remove(store, "tasks", function(address) return address == "10.0.0.7:7000" end)
--
-- Each change is made of what was read, under its ETag, and tried again when another has come before it. bell.lua knows
-- when.

local backoff = require "synod.backoff"
local core = require "synod.core"
local marks = require "synod.lease.mark"
local percent = require "synod.percent"

local addresses = {}

local CONTAINER, PREFIX = "locks", "workqueue/"
local VERSION = "1"
local ADDRESSES_MAX = 8   -- one more takes the place of the oldest
local TEXT_MAX = 2048     -- bytes of all of them
local TRIES_MAX = 5       -- of a change
local PAUSE = { min = 0.05, max = 1 }
local CALL = { timeout = 5 }

local ABSENT = { BlobNotFound = true, ContainerNotFound = true }
-- Another was first, or the answer was lost and it may have been written: read it again.
local OPEN = {
  ConditionNotMet = true, BlobAlreadyExists = true, BlobNotFound = true, ContainerNotFound = true, Timeout = true,
}

--- The addresses in metadata; what is none is passed over.
local function parse(text)
  local list, is_address = {}, require("synod.net").is_address
  for word in (text or ""):sub(1, TEXT_MAX):gmatch "[^,]+" do
    local address = percent.decode(word)
    if #list < ADDRESSES_MAX and is_address(address) then list[#list + 1] = address end
  end
  return list
end

local function text_of(list)
  local words = {}
  for i, address in ipairs(list) do words[i] = percent.encode(address, "[^%w%-._~:/@]") end
  return words[1] and table.concat(words, ",") or nil
end

local function blob_of(store, name)
  local container = store:container(CONTAINER)
  return container:blob(PREFIX .. name), container
end

--- Where those who push to the queue can be asked, as the store says.
---@param store synod.Store
---@param name string  the queue's
---@return string[]|nil addresses, synod.Props|synod.Error props  an empty list without props: there is none yet
function addresses.read(store, name)
  local props, err = (blob_of(store, name)):head(CALL)
  if not props then
    if ABSENT[err.code] then return {} end
    return nil, err
  end
  local mark
  mark, err = marks.of(props)
  if not mark then return nil, err end
  return parse(props.metadata and props.metadata.synod_hints), props
end

local function write(store, name, list, props)
  local blob, container = blob_of(store, name)
  local metadata = {}
  for field, value in next, props and props.metadata or {} do metadata[field] = value end
  metadata.synod_v, metadata.synod_hints = VERSION, text_of(list)
  if props then
    return blob:set_metadata(metadata, { if_match = props.etag, timeout = CALL.timeout })
  end
  local made, err = container:create(CALL)
  if not made then return nil, err end
  return blob:put("", { if_none_match = "*", metadata = metadata, timeout = CALL.timeout })
end

--- Changes the list; whoever changes it at the same time does not lose by it.
---@param store synod.Store
---@param name string
---@param change fun(list: string[]): boolean  in place; false: there is nothing to change
---@return true|nil, synod.Error? err
local function amend(store, name, change)
  local pause, last = backoff.new(PAUSE), nil
  for _ = 1, TRIES_MAX do
    local list, props = addresses.read(store, name)
    if not list then return nil, props --[[@as synod.Error]] end
    if not change(list) then return true end
    local written, err = write(store, name, list, props)
    if written then return true end
    if not OPEN[err.code] then return nil, err end
    last = err
    core.sleep(pause:next())
  end
  return nil, last
end

local function index_of(list, address)
  for i, other in ipairs(list) do
    if other == address then return i end
  end
end

--- Puts an address into the list, as the newest.
---@param store synod.Store
---@param name string
---@param address string  "host:port"
---@return true|nil, synod.Error? err
function addresses.add(store, name, address)
  return amend(store, name, function(list)
    if index_of(list, address) then return false end
    list[#list + 1] = address
    while #list > 1 and (#list > ADDRESSES_MAX or #text_of(list) > TEXT_MAX) do table.remove(list, 1) end
    return true
  end)
end

--- Takes addresses out of the list.
---@param store synod.Store
---@param name string
---@param is_gone fun(address: string): boolean
---@return true|nil, synod.Error? err
function addresses.remove(store, name, is_gone)
  return amend(store, name, function(list)
    local before = #list
    for i = before, 1, -1 do
      if is_gone(list[i]) then table.remove(list, i) end
    end
    return #list < before
  end)
end

return addresses
