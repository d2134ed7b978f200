-- slots: what became of each time of a schedule.
--
--   container `cron`, <name>/<slot>, metadata `state`; the body is empty while nothing is known, else
--   { "v": 1, "state": "started" | "done" | "failed" | "abandoned", "result": ..., "error": "...", "by": "...",
--     "at": "..." }
--
-- This file alone knows the records. A slot is claimed by holding its blob's lease; what became of it is written once,
-- as one write that is fenced and goes by that lease.

local calendar = require "synod.cron.calendar"
local core = require "synod.core"
local json = require "synod.json"
local mark = require "synod.lease.mark"
local sweep = require "synod.sweep"

local slots = {}

local LAYOUT = 1 -- v: what this version writes, and the newest it reads
local PAGE = 5000
local LIST = "list the blobs" -- what the err of a page that failed says was attempted
local FINISHED = { done = true, failed = true, abandoned = true }

---@alias synod.SlotState "none"|"begun"|"running"|"started"|"done"|"failed"|"abandoned"

---@class synod.SlotRecord
---@field state synod.SlotState
---@field result any      of "done"
---@field error? string   of "failed"
---@field by? string      who finished it; of "running": who is at it
---@field at? string      UTC

---@class synod.Slots
---@field container synod.Container
---@field name string
local Slots = {}
Slots.__index = Slots

---@param container synod.Container
---@param name string  the schedule's
---@return synod.Slots
function slots.of(container, name)
  return setmetatable({ container = container, name = name, prefix = name .. "/" }, Slots)
end

---@param id string
---@return synod.Blob
function Slots:blob(id)
  return self.container:blob(self.prefix .. id)
end

---@param record synod.SlotRecord
---@return boolean
function slots.is_finished(record)
  return FINISHED[record.state] == true
end

local function unreadable(self, id, version, why)
  return core.new_error {
    code = version and "NewerVersion" or "BadAnswer", operation = "read",
    target = ("the slot %s%s"):format(self.prefix, id),
    message = version and ("its layout is %d, and this synod knows none above %d"):format(version, LAYOUT)
      or "it is no record of a slot: " .. (why or "it has no version"),
  }
end

--- Nobody has finished it; does anybody hold it?
local function unfinished(state, props)
  local seen, err = mark.of(props)
  if not seen then return nil, err end
  if not seen.kind then return { state = state, by = seen.holder } end
  return { state = state == "begun" and "running" or state, by = seen.holder, at = seen.since }
end

--- What is known of a slot.
---@param id string
---@return synod.SlotRecord|nil, synod.Error? err
function Slots:read(id)
  local text, props = self:blob(id):get()
  if not text then
    if props.code == "BlobNotFound" or props.code == "ContainerNotFound" then return { state = "none" } end
    return nil, props
  end
  if text == "" then return unfinished("begun", props) end
  local record, why = json.decode(text)
  local version = type(record) == "table" and math.tointeger(record.v)
  if not version or version > LAYOUT then return nil, unreadable(self, id, version, why) end
  if record.state == "started" then return unfinished("started", props) end
  if record.result == json.null then record.result = nil end
  return { state = record.state, result = record.result, error = record.error, by = record.by, at = record.at }
end

--- Writes what became of it, in one write that only its holder can make.
---@param held synod.Held
---@param id string
---@param record { state: synod.SlotState, result?: any, error?: string, by: string }
---@return synod.Props|nil, synod.Error? err
function Slots:write(held, id, record)
  local text = json.encode {
    v = LAYOUT, state = record.state, result = record.result, error = record.error, by = record.by,
    at = core.iso_time(core.time(), 3),
  }
  return held:put(self:blob(id), text, {
    metadata = { state = record.state }, content_type = "application/json", timeout = math.max(0.001, held:remaining()),
  })
end

local function read_list(self)
  local list = {}
  for item in self.container:list { prefix = self.prefix, page = PAGE, metadata = true } do
    local id = item.name:sub(#self.prefix + 1)
    local at = calendar.instant(id)
    if at then list[#list + 1] = { id = id, at = at, state = item.metadata and item.metadata.state } end
  end
  return list
end

--- All slots that were ever begun and have not been swept, in order.
---@return { id: string, at: integer, state: string|nil }[]|nil, synod.Error? err
function Slots:list()
  local ok, list = pcall(read_list, self)
  if ok then return list end
  local err = list
  if type(err) ~= "table" or err.operation ~= LIST then error(err, 0) end
  if err.code == "ContainerNotFound" then return {} end
  return nil, err
end

--- Takes away, in the background, what is older than a week. For whoever has just written a slot: the last one, from
--- which missed ones are reckoned, is no week old then.
---@param now integer  the store's time, seconds since 1970
function Slots:clean_later(now)
  local prefix = self.prefix
  sweep.later("old slots", sweep.old, self.container, now, {
    prefix = prefix,
    group_of = function(name) return calendar.instant(name:sub(#prefix + 1)) and name or nil end,
  })
end

return slots
