-- pieces: the results of a scattered job, one blob for each piece.
--
--   container `scatter`, <name>/<job>/<piece>: { "v": 1, "result": ..., "by": "...", "at": "..." }, or with "error"
--   instead of "result"; metadata synod_v
--
-- This file alone knows the records. A result is created and never changed: whoever comes second changes nothing.

local core = require "synod.core"
local generation = require "synod.generation"
local json = require "synod.json"
local sweep = require "synod.sweep"

local pieces = {}

local LAYOUT = 1 -- v and synod_v: what this version writes, and the newest it reads
local LIST = "list the blobs" -- what the err of a page that failed says was attempted
local PAGE = 5000

pieces.COUNT_MAX = 100000

---@class synod.Pieces
---@field container synod.Container
---@field prefix string
local Pieces = {}
Pieces.__index = Pieces

---@param container synod.Container
---@param name string
---@param job string
---@return synod.Pieces
function pieces.of(container, name, job)
  return setmetatable({
    container = container, name = name, prefix = ("%s/%s/"):format(name, generation.part(job)),
  }, Pieces)
end

--- A piece's id, by its place in the list. Ids are in the order of the places.
---@param n integer
---@return string
function pieces.id(n)
  return ("%06d"):format(n)
end

local function is_there(err)
  return err.code == "BlobAlreadyExists" or err.code == "ConditionNotMet"
end

--- Writes what became of a piece, unless that is known.
---@param id string
---@param record { result?: any, error?: string, by: string }
---@return synod.Props|nil, synod.Error? err  nil without an err: it was known
function Pieces:write(id, record)
  local result = record.result -- false is one too
  if result == nil and record.error == nil then result = json.null end
  local text = json.encode {
    v = LAYOUT, by = record.by, at = core.iso_time(core.time(), 3), error = record.error, result = result,
  }
  local blob = self.container:blob(self.prefix .. id)
  local options = { if_none_match = "*", metadata = { synod_v = tostring(LAYOUT) }, content_type = "application/json" }
  local props, err = blob:put(text, options)
  if not props and err.code == "ContainerNotFound" then
    local made, why = self.container:create()
    if not made then return nil, why end
    props, err = blob:put(text, options)
  end
  if props or is_there(err) then return props end
  return nil, err
end

---@param id string
---@return boolean|nil known, synod.Error? err
function Pieces:is_known(id)
  local props, err = self.container:blob(self.prefix .. id):head()
  if props then return true end
  if err.code == "BlobNotFound" or err.code == "ContainerNotFound" then return false end
  return nil, err
end

--- What became of a piece.
---@param id string
---@return { result: any, error: string|nil, by: string }|nil, synod.Error? err
function Pieces:read(id)
  local text, err = self.container:blob(self.prefix .. id):get()
  if not text then return nil, err end
  local record, why = json.decode(text)
  local version = type(record) == "table" and math.tointeger(record.v)
  if version and version <= LAYOUT then
    if record.result == json.null then record.result = nil end
    return record
  end
  return nil, core.new_error {
    code = version and "NewerVersion" or "BadAnswer", operation = "read",
    target = ("the result %s%s"):format(self.prefix, id),
    message = version and ("its layout is %d, and this synod knows none above %d"):format(version, LAYOUT)
      or "it is no result of a piece: " .. (why or "it has no version"),
  }
end

local function read_list(self)
  local known = {}
  for item in self.container:list { prefix = self.prefix, page = PAGE } do
    known[item.name:sub(#self.prefix + 1)] = true
  end
  return known
end

--- The ids of pieces of which it is known what became.
---@return table<string, true>|nil, synod.Error? err
function Pieces:known()
  local ok, known = pcall(read_list, self)
  if ok then return known end
  local err = known
  if type(err) ~= "table" or err.operation ~= LIST then error(err, 0) end
  if err.code == "ContainerNotFound" then return {} end
  return nil, err
end

--- Takes all results of the job away.
---@return true|nil, synod.Error? err
function Pieces:forget()
  local known, err = self:known()
  if not known then return nil, err end
  for id in next, known do
    local gone, why = self.container:blob(self.prefix .. id):delete()
    if not gone and why.code ~= "BlobNotFound" then return nil, why end
  end
  return true
end

--- Takes away, in the background, what jobs of earlier weeks have left under this name.
---@param now integer  the store's time, seconds since 1970
function Pieces:clean_later(now)
  local own, under = self.prefix, self.name .. "/"
  sweep.later("results of old jobs", sweep.old, self.container, now, {
    prefix = under,
    group_of = function(name)
      local job = name:match("^.-/.-/")
      return job ~= own and job or nil
    end,
  })
end

return pieces
