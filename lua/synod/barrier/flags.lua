-- flags: what a barrier writes down. Everyone who arrives raises a flag; whoever sees the last one opens the gate.
--
-- This file alone knows the names and records, which other programs and other versions of synod read too:
--
--   flag   <key>_<ordinal>   a page blob of 512 bytes; by synod with the metadata synod_v and synod_instance
--   gate   <key>.gate        a block blob: the ordinals that were counted ("0-3,5"), with the metadata synod_v,
--                            synod_parties and synod_at_least
--
-- Each call is one storage request, but for a list (one for each 5,000 flags), and a first flag, which may have to make
-- the container.

local core = require "synod.core"
local percent = require "synod.percent"

local flags = {}

local LAYOUT = 1 -- synod_v: what this version writes, and the newest it reads
local UNSAFE = "[^%w%-_.~@]" -- percent-encoded in metadata
local FLAG_BYTES = 512
local LIST = "list the blobs" -- what the err of a page that failed says was attempted

flags.PARTIES_MAX = 10000

---@class synod.Flags
---@field key string
---@field ordinal integer  of the own flag
local Flags = {}
Flags.__index = Flags

---@class synod.Gate
---@field parties integer
---@field at_least integer
---@field counted table<integer, true>  ordinals
---@field etag string

---@param container synod.Container
---@param key string
---@param ordinal integer  whose flag is ours
---@param who string       our instance id
---@return synod.Flags
function flags.at(container, key, ordinal, who)
  return setmetatable({ container = container, key = key, ordinal = ordinal, who = who }, Flags)
end

--- Ordinals as text: "0-3,5".
---@param set table<integer, true>
---@return string
function flags.ranges(set)
  local list = {}
  for ordinal in next, set do list[#list + 1] = ordinal end
  table.sort(list)
  local parts, i = {}, 1
  while i <= #list do
    local from = i
    while list[i + 1] == list[i] + 1 do i = i + 1 end
    parts[#parts + 1] = from == i and tostring(list[i]) or ("%d-%d"):format(list[from], list[i])
    i = i + 1
  end
  return table.concat(parts, ",")
end

--- What flags.ranges wrote. Text that it did not write gives fewer ordinals, never more than `max`.
---@param text string
---@param max integer  the number of parties
---@return table<integer, true>
function flags.set(text, max)
  local set = {}
  for part in text:gmatch("[%d-]+") do
    local from, to = part:match("^(%d+)%-?(%d*)$")
    from, to = math.tointeger(tonumber(from)), math.tointeger(tonumber(to ~= "" and to or from))
    for ordinal = from or 0, math.min(to or -1, max - 1) do set[ordinal] = true end
  end
  return set
end

local function newer(self, name, version)
  return core.new_error {
    code = "NewerVersion", operation = "read", target = ("%s of the barrier %s"):format(name, self.key),
    message = ("its layout is %s, and this synod knows no layout above %d"):format(version, LAYOUT),
  }
end

--- A record without a version is another client's. One whose version is not a number is not ours to judge.
local function is_newer(metadata)
  local version = metadata and metadata.synod_v
  return version ~= nil and (math.tointeger(tonumber(version)) or math.huge) > LAYOUT
end

local function is_there(err)
  return err.code == "BlobAlreadyExists" or err.code == "ConditionNotMet"
end

--- Raises our flag; one that stands there already is left as it is.
---@param timeout? number  seconds
---@return "raised"|"standing"|nil, synod.Error? err
function Flags:raise(timeout)
  local blob = self.container:blob(("%s_%d"):format(self.key, self.ordinal))
  local options = {
    type = "page", size = FLAG_BYTES, if_none_match = "*", timeout = timeout,
    metadata = { synod_v = tostring(LAYOUT), synod_instance = percent.encode(self.who, UNSAFE) },
  }
  local props, err = blob:put("", options)
  if not props and err.code == "ContainerNotFound" then
    local made, why = self.container:create()
    if not made then return nil, why end
    props, err = blob:put("", options)
  end
  if props then return "raised" end
  if is_there(err) then return "standing" end
  return nil, err
end

--- Reads the list to its end. What the store refuses comes back; what is raised in the task (a cancel) goes on.
local function read_list(self, prefix, timeout)
  local raised, newest = {}, nil
  for item in self.container:list { prefix = prefix, metadata = true, timeout = timeout } do
    local digits = item.name:sub(#prefix + 1)
    local ordinal = math.tointeger(tonumber(digits))
    if ordinal and tostring(ordinal) == digits then
      raised[ordinal] = true
      if is_newer(item.metadata) then newest = newer(self, "flag " .. digits, item.metadata.synod_v) end
    end
  end
  return raised, newest
end

--- The ordinals whose flags stand.
---@param timeout? number  seconds, for each page
---@return table<integer, true>|nil, synod.Error? err
function Flags:list(timeout)
  local ok, raised, problem = pcall(read_list, self, self.key .. "_", timeout)
  if not ok then
    local err = raised
    if type(err) ~= "table" or err.operation ~= LIST then error(err, 0) end
    return nil, err
  end
  if problem then return nil, problem end
  return raised
end

local function gate_blob(self)
  return self.container:blob(self.key .. ".gate")
end

--- The gate, or nil when it is shut. A gate that nobody of us has written admits nobody.
---@param timeout? number  seconds
---@return synod.Gate|nil, synod.Error? err
function Flags:gate(timeout)
  local body, props = gate_blob(self):get { timeout = timeout }
  if not body then
    if props.code == "BlobNotFound" then return nil end
    return nil, props
  end
  local metadata = props.metadata or {}
  if is_newer(metadata) then return nil, newer(self, "gate", metadata.synod_v) end
  local parties = math.tointeger(tonumber(metadata.synod_parties)) or 0
  return {
    parties = parties, at_least = math.tointeger(tonumber(metadata.synod_at_least)) or parties,
    counted = flags.set(body, math.min(parties, flags.PARTIES_MAX)), etag = props.etag,
  }
end

--- Opens the gate, or opens anew the one that was read (`over`). Nil without an err: somebody was faster; read it.
---@param record { parties: integer, at_least: integer, counted: table<integer, true> }
---@param over? synod.Gate
---@return synod.Props|nil, synod.Error? err
function Flags:open(record, over)
  local props, err = gate_blob(self):put(flags.ranges(record.counted), {
    if_none_match = not over and "*" or nil, if_match = over and over.etag,
    metadata = {
      synod_v = tostring(LAYOUT), synod_parties = tostring(record.parties), synod_at_least = tostring(record.at_least),
    },
  })
  if props then return props end
  if is_there(err) then return nil end
  return nil, err
end

local function remove(blob)
  local gone, err = blob:delete()
  return gone or err.code == "BlobNotFound", err
end

--- Takes down every flag, then the gate: whoever waits meanwhile still passes. Nothing, where a newer synod was here.
---@return true|nil, synod.Error? err
function Flags:clear()
  local _, err = self:gate()
  local raised
  if not err then raised, err = self:list() end
  if err then
    if err.code == "ContainerNotFound" then return true end
    return nil, err
  end
  for ordinal in next, raised do
    local gone, why = remove(self.container:blob(("%s_%d"):format(self.key, ordinal)))
    if not gone then return nil, why end
  end
  local gone, why = remove(gate_blob(self))
  if not gone then return nil, why end
  return true
end

return flags
