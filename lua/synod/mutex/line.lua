-- line: who waits for something, in the order in which they came.
--
--   local line = line.at(container, "mutex/account.line", "worker_IN_2")
--   local place <close> = assert(line:join(30))
--   local entries = assert(line:read())                    -- ours is the one with place.nonce
--
-- One blob with a line of text for each who waits, changed by compare-and-set. Each has a nonce, so that a change whose
-- answer was lost is seen in the record, and is made once. Nothing here says who is still there: that is judged by who
-- waits behind.

local backoff = require "synod.backoff"
local core = require "synod.core"
local new_nonce = require "synod.nonce"
local percent = require "synod.percent"

local line = {}

local LAYOUT = 1 -- synod_v
local NONCE_BYTES = 8
local ENTRIES_MAX = 1000
local PAUSE_MIN_S, PAUSE_MAX_S = 0.002, 0.5
local LEAVE_S = 5

---@class synod.Line
---@field blob synod.Blob
---@field container synod.Container
---@field who string
local Line = {}
Line.__index = Line

---@class synod.Line.Entry
---@field nonce string
---@field who string

---@class synod.Line.Place  ours; closed: we have left
---@field nonce string
local Place = {}
Place.__index = Place

---@param container synod.Container
---@param name string  the blob's
---@param who string   instance id, for people
---@return synod.Line
function line.at(container, name, who)
  return setmetatable({ container = container, blob = container:blob(name), name = name, who = who }, Line)
end

local function failure(self, code, message)
  return core.new_error { code = code, operation = "wait in", target = "the line " .. self.name, message = message }
end

--- Who waits, the first to come first.
---@param timeout? number
---@return synod.Line.Entry[]|nil entries, string|synod.Error|nil etag  nil: nobody has waited yet
function Line:read(timeout)
  local body, props = self.blob:get { timeout = timeout }
  if not body then
    if props.code == "BlobNotFound" or props.code == "ContainerNotFound" then return {} end
    return nil, props
  end
  local version = (props.metadata or {}).synod_v
  if version and (math.tointeger(tonumber(version)) or math.huge) > LAYOUT then
    return nil, failure(self, "NewerVersion")
  end
  local entries = {}
  for nonce, who in body:gmatch("(%x+) ([^\n]*)\n") do entries[#entries + 1] = { nonce = nonce, who = who } end
  return entries, props.etag
end

local function write(self, entries, etag, timeout)
  local lines = {}
  for i, entry in ipairs(entries) do lines[i] = ("%s %s\n"):format(entry.nonce, percent.encode(entry.who, "[%c%%]")) end
  local how = {
    if_match = etag, if_none_match = not etag and "*" or nil, timeout = timeout,
    metadata = { synod_v = tostring(LAYOUT) },
  }
  local props, err = self.blob:put(table.concat(lines), how)
  if not props and err.code == "ContainerNotFound" then
    local made, why = self.container:create { timeout = timeout }
    if not made then return nil, why end
    props, err = self.blob:put(table.concat(lines), how)
  end
  return props, err
end

local function position_of(entries, nonce)
  for i, entry in ipairs(entries) do
    if entry.nonce == nonce then return i end
  end
end

--- Changes the line: `edit` gets the entries and gives the new ones, or nil, and maybe an err, for no change.
local function change(self, timeout, edit)
  local done, err = backoff.poll(function(left)
    local entries, etag = self:read(left)
    if not entries then return not etag.retryable, etag end
    local edited, why = edit(entries)
    if not edited then return true, why end
    local props, refusal = write(self, edited, etag, left)
    if props then return true end
    local again = refusal.retryable or refusal.code == "ConditionNotMet" or refusal.code == "BlobAlreadyExists"
    return not again, refusal
  end, { timeout = timeout, min = PAUSE_MIN_S, max = PAUSE_MAX_S })
  if err then return nil, err end
  return done
end

local function enter(self, nonce, timeout)
  return change(self, timeout, function(entries)
    if position_of(entries, nonce) then return nil end
    if #entries >= ENTRIES_MAX then
      return nil, failure(self, "Throttled", ("%d wait already"):format(#entries))
    end
    entries[#entries + 1] = { nonce = nonce, who = self.who }
    return entries
  end)
end

local function take_out(self, nonce, timeout)
  return change(self, timeout, function(entries)
    local position = position_of(entries, nonce)
    if not position then return nil end
    table.remove(entries, position)
    return entries
  end)
end

--- Comes last. A cancel or failure leaves no place behind, or one whose turn passes.
---@param timeout? number
---@return synod.Line.Place|nil, synod.Error? err
function Line:join(timeout)
  local nonce = new_nonce(NONCE_BYTES)
  local place = setmetatable({ nonce = nonce, line = self }, Place)
  local _ <close> = setmetatable({}, { __close = function() if not place.stands then place:close() end end })
  local entered, err = enter(self, nonce, timeout)
  place.stands = entered
  if not entered then return nil, err end
  return place
end

--- All before us are taken out: the first does not take his turn, and none of the others does anything about it.
---@param first string  the nonce of who is first; when it is another by now, nothing is done
---@param timeout? number
---@return true|nil, synod.Error? err
function Place:overtake(first, timeout)
  return change(self.line, timeout, function(entries)
    local position = position_of(entries, self.nonce)
    if not position or position == 1 or entries[1].nonce ~= first then return nil end
    return table.move(entries, position, #entries, 1, {})
  end)
end

--- Comes last again, after others have taken us out.
---@param timeout? number
---@return true|nil, synod.Error? err
function Place:rejoin(timeout)
  return enter(self.line, self.nonce, timeout)
end

--- Leaves. When the store refuses, the place stays, and whoever is behind takes it out.
function Place:close()
  if self.closed then return end
  self.closed = true
  local left, err = take_out(self.line, self.nonce, LEAVE_S)
  if not left then
    require("synod.log").debug("a place in a line is left behind", { line = self.line.name, why = tostring(err) })
  end
end

Place.__close = Place.close
line.position_of = position_of

return line
