-- counter: a whole number that many instances change, without a lost update and without one that counts twice.
--
--   local orders = require("synod.counter").new { name = "orders" }
--   local number = assert(orders:add(1))
--
-- One blob, changed by compare-and-set on its ETag. What makes it more than that is the lost answer: a write that may
-- have happened, while others have written since. So the record remembers by a nonce which changes were made last, and
-- who is in doubt looks there: found is done; not found, and nothing of that age forgotten, is not done. An instance's
-- next change replaces its last one, so 64 of them can be in doubt at once before anything that matters is forgotten.
--
-- docs/reference/counter.md is the manual.

local backoff = require "synod.backoff"
local core = require "synod.core"
local new_nonce = require "synod.nonce"
local options = require "synod.options"

local counter = {}

local CONTAINER = "counters"
local LAYOUT = 1 -- synod_v: what this version writes, and the newest it reads
local REMEMBERED_MAX = 64
local NONCE_BYTES = 8
local TIMEOUT_S = 10
local CALL_MIN_S = 0.5 -- what a request may take near the end of a call
local PAUSE_MIN_S, PAUSE_MAX_S = 0.002, 0.5 -- between tries, while others write too

---@class synod.Counter.Options
---@field name string          letters, digits, "_" and "-"
---@field store? synod.Store   synod.store
---@field container? string    "counters"

---@class synod.Counter
local Counter = {}
Counter.__index = Counter
Counter.__name = "synod.Counter"

local NEW = { name = "label", store = "store", container = "string" }
local CALL = { timeout = "seconds" }

---@param given synod.Counter.Options
---@return synod.Counter
function counter.new(given)
  local o = options.read("counter.new", given, NEW)
  if not o.name then options.refuse("counter.new: a name is needed, such as name = \"orders\"") end
  local container = (o.store or require("synod").store):container(o.container or CONTAINER)
  return setmetatable({
    name = tostring(o.name), container = container, blob = container:blob(tostring(o.name)),
    settled = {}, -- nonces of our changes that nobody doubts any more
  }, Counter)
end

---------------------------------------------------------------- the record

---@class synod.Counter.Record
---@field value integer
---@field etag? string      nil: there is no blob yet
---@field writes integer    how many changes were made so far
---@field forgotten integer changes up to this number may be missing in `recent`
---@field recent { number: integer, nonce: string }[]  in the order of their numbers

local function failure(self, code, message)
  return core.new_error {
    code = code, operation = "use", target = ("the counter '%s'"):format(self.name), message = message,
  }
end

local function whole(text)
  return math.tointeger(tonumber(text or ""))
end

local function recent_of(text)
  local list = {}
  for number, nonce in (text or ""):gmatch("(%d+)%.(%x+)") do
    list[#list + 1] = { number = whole(number), nonce = nonce }
  end
  return list
end

--- What is there; a counter that nobody has changed is 0. A number put by another client is as good as ours.
---@return synod.Counter.Record|nil, synod.Error? err
local function read(self, timeout)
  local body, props = self.blob:get { timeout = timeout }
  if not body then
    if props.code == "BlobNotFound" or props.code == "ContainerNotFound" then
      return { value = 0, writes = 0, forgotten = 0, recent = {} }
    end
    return nil, props
  end
  local metadata = props.metadata or {}
  if metadata.synod_v and (whole(metadata.synod_v) or math.huge) > LAYOUT then
    return nil, failure(self, "NewerVersion")
  end
  local value = whole(body:match("^%s*(-?%d+)%s*$"))
  if not value then
    return nil, failure(self, "BadAnswer", ("its blob %s holds no whole number"):format(self.name))
  end
  return {
    value = value, etag = props.etag, writes = whole(metadata.synod_writes) or 0,
    forgotten = whole(metadata.synod_forgotten) or 0, recent = recent_of(metadata.synod_recent),
  }
end

--- The record's memory with one change more: what we no longer doubt makes room first, then the oldest.
---@return string recent, integer forgotten
local function remember(self, record, change)
  local kept, settled, forgotten = {}, {}, record.forgotten
  for _, entry in ipairs(record.recent) do
    if self.settled[entry.nonce] then
      settled[entry.nonce] = true
    else
      kept[#kept + 1] = entry
    end
  end
  self.settled = settled -- those that are not there any more need not be looked for
  kept[#kept + 1] = change
  while #kept > REMEMBERED_MAX do forgotten = table.remove(kept, 1).number end
  local words = {}
  for i, entry in ipairs(kept) do words[i] = ("%d.%s"):format(entry.number, entry.nonce) end
  return table.concat(words, " "), forgotten
end

--- Writes the record with the change, on the condition that it is as it was read.
---@return synod.Props|nil, synod.Error? err
local function write(self, record, change, timeout)
  local recent, forgotten = remember(self, record, change)
  local text = ("%d"):format(change.value)
  local how = {
    if_match = record.etag, if_none_match = not record.etag and "*" or nil,
    timeout = timeout, retries = 0, -- a refusal after a retry would not say whose write it was that came first
    metadata = {
      synod_v = tostring(LAYOUT), synod_writes = tostring(change.number), synod_forgotten = tostring(forgotten),
      synod_recent = recent,
    },
  }
  local props, err = self.blob:put(text, how)
  if not props and err.code == "ContainerNotFound" then
    local made, why = self.container:create { timeout = timeout }
    if not made then return nil, why end
    props, err = self.blob:put(text, how)
  end
  return props, err
end

---------------------------------------------------------------- a change

--- Whether the change in doubt is in the record; nil: nobody can tell.
local function is_done(record, change)
  for _, entry in ipairs(record.recent) do
    if entry.nonce == change.nonce then return true end
  end
  -- Fewer writes than when it was tried: another client has overwritten the memory.
  if record.forgotten >= change.number or record.writes < change.number - 1 then return nil end
  return false
end

local function may_come_right(err)
  return err.retryable or err.code == "AnswerLost"
end

--- Whether the answer says that the write has not happened, and cannot happen later either.
local function is_refused(err)
  return err.code == "ConditionNotMet" or err.code == "BlobAlreadyExists"
end

--- One try: read, see what became of the last one, write.
---@return boolean|nil settled  nil: try again
---@return any result, synod.Error? err
local function try(self, change, next_value, left)
  local timeout = math.max(left, CALL_MIN_S)
  local record, err = read(self, timeout)
  if not record then
    if may_come_right(err) then return nil, err end
    return true, nil, err
  end
  if change.doubted then
    local done = is_done(record, change)
    if done == nil then return true, nil, failure(self, "AnswerLost") end
    if done then return true, change.value end
    change.doubted = record.etag == change.over -- while nobody else has written, it may still happen
  end
  local value, result, why = next_value(record.value)
  if value == nil then return true, result, why end
  local doubted = change.doubted
  change.number, change.value, change.over, change.doubted = record.writes + 1, value, record.etag, true
  local props
  props, err = write(self, record, change, timeout)
  if props then return true, value end
  if is_refused(err) then
    change.doubted = doubted
  elseif not may_come_right(err) then
    return true, nil, err
  end
  return nil, err
end

--- Makes a change whose value `next_value` computes from the present one; nil from it, and results, end it unchanged.
---@return any result  the new value, or what next_value gave beside nil
---@return any err
local function make(self, timeout, next_value)
  local change = { nonce = new_nonce(NONCE_BYTES) }
  local refusal
  local settled, result, err = backoff.poll(function(left)
    local done, value, why = try(self, change, next_value, left)
    refusal = not done and not is_refused(value) and value
    return done, value, why
  end, { timeout = timeout or TIMEOUT_S, min = PAUSE_MIN_S, max = PAUSE_MAX_S })
  if settled then
    if result then self.settled[change.nonce] = true end
    return result, err
  end
  if change.doubted then return nil, failure(self, "AnswerLost") end
  return nil, refusal or result -- others were always faster: a Timeout
end

local function check_whole(call, value)
  if math.type(value) ~= "integer" then
    error(("%s: a whole number expected, got %s"):format(call, tostring(value)), 3)
  end
end

--- Adds n.
---@param n? integer  1; may be below 0
---@param given? { timeout?: number }  seconds, 10
---@return integer|nil value, synod.Error? err  the value with n added
function Counter:add(n, given)
  given = options.read("counter:add", given, CALL)
  if n == nil then n = 1 end
  check_whole("counter:add", n)
  return make(self, given.timeout, function(value)
    local sum = value + n
    if (sum > value) ~= (n > 0) and n ~= 0 then
      return nil, nil, failure(self, "InvalidInput", ("%d and %d are more than 64 bits hold"):format(value, n))
    end
    return sum
  end)
end

--- The value; 0 when nobody has changed it yet.
---@param given? { timeout?: number }
---@return integer|nil value, synod.Error? err
function Counter:get(given)
  given = options.read("counter:get", given, CALL)
  local record, err = read(self, given.timeout)
  if not record then return nil, err end
  return record.value
end

--- Sets it to `new` if it is `old`.
---@param old integer
---@param new integer
---@param given? { timeout?: number }
---@return boolean|nil done, integer|synod.Error|nil actual  false, and what it is instead; nil, and why it failed
function Counter:compare_and_set(old, new, given)
  given = options.read("counter:compare_and_set", given, CALL)
  check_whole("counter:compare_and_set", old)
  check_whole("counter:compare_and_set", new)
  local result, err = make(self, given.timeout, function(value)
    if value ~= old then return nil, false, value end
    return new
  end)
  if result == nil or result == false then return result, err end
  return true
end

return counter
