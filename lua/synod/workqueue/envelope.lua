-- envelope: what a message of a work queue carries.
--
--   { "v": 1, "id": "...", "body": ..., "attempts": [ { "at": "...", "by": "...", "error": "..." } ] }
--
-- This file alone knows the record. An attempt without an error was given back unharmed: its consumer was told to stop.
-- A body that is no envelope is another client's and is taken as it is; one of a newer version is not ours to judge.

local core = require "synod.core"
local json = require "synod.json"
local new_nonce = require "synod.nonce"

local envelope = {}

local LAYOUT = 1 -- v: what this version writes, and the newest it reads
local ERROR_MAX = 500   -- bytes kept of what an attempt failed with
local ERROR_SHORT = 100 -- where they do not fit
local ID_BYTES = 16

envelope.TEXT_MAX = 64 * 1024  -- bytes of a message
envelope.BYTES_MAX = 48 * 1024 -- of one that travels as base64

---@class synod.Envelope.Attempt
---@field at string     UTC
---@field by string     an instance
---@field error? string  nil: given back

---@class synod.Envelope
---@field v integer
---@field id string
---@field body any
---@field attempts synod.Envelope.Attempt[]
---@field foreign? boolean  it came without an envelope

---@return string
function envelope.new_id()
  return new_nonce(ID_BYTES)
end

---@param body any      what JSON can say
---@param id? string    nil: a new one
---@return synod.Envelope
function envelope.new(body, id)
  return { v = LAYOUT, id = id or envelope.new_id(), body = body, attempts = json.array {} }
end

local function newer(v)
  return core.new_error {
    code = "NewerVersion", operation = "read", target = "a message",
    message = ("its layout is %d, and this synod knows none above %d"):format(v, LAYOUT),
  }
end

local function is_envelope(value)
  return type(value) == "table" and math.type(value.v) == "integer" and type(value.id) == "string"
end

--- Only what is a record of an attempt; who knows what others have put there.
local function attempts_of(list)
  local attempts = json.array {}
  for _, entry in ipairs(type(list) == "table" and list or {}) do
    if type(entry) == "table" then
      local err = entry.error
      attempts[#attempts + 1] = {
        at = tostring(entry.at), by = tostring(entry.by),
        error = err ~= nil and err ~= json.null and tostring(err) or nil,
      }
    end
  end
  return attempts
end

--- Reads what a message carries.
---@param text string
---@param message_id string  the queue's id of it, for a body without an envelope
---@return synod.Envelope|nil, synod.Error? err  NewerVersion
function envelope.read(text, message_id)
  local value = text:find("^%s*{") and json.decode(text)
  if not is_envelope(value) then
    local e = envelope.new(text, message_id)
    e.foreign = true
    return e
  end
  if value.v > LAYOUT then return nil, newer(value.v) end
  local body = value.body
  if body == json.null then body = nil end
  return { v = LAYOUT, id = value.id, body = body, attempts = attempts_of(value.attempts) }
end

local function cut(text, max)
  if #text <= max then return text end
  local last = utf8.offset(text, 0, max + 1) - 1 -- not in the middle of a character
  return text:sub(1, last) .. "..."
end

--- Adds what became of an attempt; no error: it was given back.
---@param e synod.Envelope
---@param by string
---@param why? any
function envelope.add_attempt(e, by, why)
  local text = why ~= nil and tostring(why) or nil
  if text and not utf8.len(text) then text = text:gsub("[\x80-\xff]", "?") end
  e.attempts[#e.attempts + 1] = {
    at = core.iso_time(core.time(), 3), by = by, error = text and cut(text, ERROR_MAX),
  }
end

--- How often it was given back.
---@param e synod.Envelope
---@return integer
function envelope.returned(e)
  local count = 0
  for _, entry in ipairs(e.attempts) do
    if not entry.error then count = count + 1 end
  end
  return count
end

--- How often it has failed, as far as its history tells.
---@param e synod.Envelope
---@return integer count, string|nil last  what the last failure was
function envelope.failed(e)
  local count, last = 0, nil
  for _, entry in ipairs(e.attempts) do
    if entry.error then count, last = count + 1, entry.error end
  end
  return count, last
end

local function text_of(e, attempts)
  return json.encode { v = e.v, id = e.id, body = e.body == nil and json.null or e.body, attempts = attempts }
end

--- The text of a message, with as much of its history as fits: what is older goes first, and then most of the last
--- error. Nil when not even the body fits, and of another client's bytes that are no text: they stay as they are.
---@param e synod.Envelope
---@param max integer  bytes
---@return string|nil
function envelope.text(e, max)
  if e.foreign and not utf8.len(e.body) then return nil end
  local kept = json.array(table.move(e.attempts, 1, #e.attempts, 1, {}))
  local text = text_of(e, kept)
  while #text > max and #kept > 1 do
    table.remove(kept, 1)
    text = text_of(e, kept)
  end
  local last = kept[1]
  if #text > max and last and last.error then
    kept[1] = { at = last.at, by = last.by, error = cut(last.error, ERROR_SHORT) }
    text = text_of(e, kept)
  end
  return #text <= max and text or nil
end

return envelope
