-- roster: the records of a membership, and who of them lives.
--
--   table `members`, partition <group>, row <deployment>|<instance>: synod_v, incarnation, nonce, info (JSON), beat,
--   ttl_ms, since
--
-- This file alone knows the records. A record lives as long as it changes: a watcher counts the record's own ttl from
-- the moment its read returned to the one at which a later read was sent, by its own clock: an answer that was long on
-- its way is old. Nothing is ever compared with the clock of whoever wrote the record.

local core = require "synod.core"
local generation = require "synod.generation"
local json = require "synod.json"
local percent = require "synod.percent"

local roster = {}

local LAYOUT = 1 -- synod_v: what this version writes, and the newest it reads
local RATE = 1.01 -- a watcher's clock may run so much faster than a member's
local SWEEP = 3  -- so many ttl without a change, and the row goes
local QUERY = "query the entities" -- what the err of a page that failed says was attempted

---@class synod.Roster.Record
---@field deployment string
---@field id string
---@field incarnation integer
---@field nonce string
---@field info any
---@field beat integer
---@field ttl number      seconds
---@field since string    UTC, of the join
---@field etag string
---@field row string

---@class synod.Roster
local Roster = {}
Roster.__index = Roster

---@param t synod.Table
---@param group string  the partition
---@return synod.Roster
function roster.of(t, group)
  return setmetatable({ table = t, group = generation.part(group), seen = {} }, Roster)
end

--- The row of an instance.
---@param deployment string|nil
---@param id string
---@return string
function roster.row(deployment, id)
  return ("%s|%s"):format(generation.part(deployment or ""):gsub("|", "%%7C"), generation.part(id))
end

--- Other clients may write it as an Int32.
local function whole(value)
  return math.tointeger(type(value) == "userdata" and value.value or value)
end

--- Nothing where it is not ours: of a newer version, or of somebody else.
---@return synod.Roster.Record|nil
local function record_of(e)
  local deployment, id = e.row:match("^([^|]*)|(.*)$")
  local version = whole(e.synod_v)
  if not id or not version then return nil end
  if version > LAYOUT then return nil end
  local info = json.decode(tostring(e.info or "null"))
  if info == json.null then info = nil end
  return {
    deployment = percent.decode(deployment), id = percent.decode(id), incarnation = whole(e.incarnation) or 0,
    nonce = tostring(e.nonce), info = info, beat = whole(e.beat) or 0, ttl = (whole(e.ttl_ms) or 0) / 1000,
    since = tostring(e.since), etag = e.etag, row = e.row,
  }
end

local function entity_of(group, record)
  return {
    partition = group, row = record.row, synod_v = LAYOUT, incarnation = record.incarnation, nonce = record.nonce,
    info = json.encode(record.info), beat = record.beat, ttl_ms = math.floor(record.ttl * 1000), since = record.since,
  }
end

---------------------------------------------------------------- one's own record

---@return synod.Roster.Record|nil, synod.Error? err  nil without an err: there is none
function Roster:read(row, timeout)
  local e, err = self.table:get(self.group, row, { timeout = timeout })
  if not e then
    if err.code == "ResourceNotFound" or err.code == "TableNotFound" then return nil end
    return nil, err
  end
  local record = record_of(e)
  if record then return record end
  local version = whole(e.synod_v)
  return nil, core.new_error {
    code = version and "NewerVersion" or "BadAnswer", operation = "read",
    target = ("the member %s of %s"):format(row, self.group),
    message = version and ("its layout is %d, and this synod knows none above %d"):format(version, LAYOUT)
      or "it is no record of a membership: somebody else writes into the table",
  }
end

--- Writes a record of a new incarnation over the one that was read, or where there was none.
---@param record synod.Roster.Record
---@param over? synod.Roster.Record
---@return string|nil etag, synod.Error? err
function Roster:enter(record, over)
  local entity = entity_of(self.group, record)
  local written, err
  if over then
    written, err = self.table:replace(entity, { if_match = over.etag })
  else
    written, err = self.table:insert(entity)
    if not written and err.code == "TableNotFound" then
      local made, why = self.table:create()
      if not made then return nil, why end
      written, err = self.table:insert(entity)
    end
  end
  if written then return written.etag end
  return nil, err
end

--- Writes the next beat, and only over the record that was written or read last.
---@param record synod.Roster.Record
---@param beat integer
---@param timeout number
---@return string|nil etag, synod.Error? err
function Roster:beat(record, beat, timeout)
  local written, err = self.table:merge(
    { partition = self.group, row = record.row, beat = beat, info = json.encode(record.info) },
    { if_match = record.etag, timeout = timeout, try_timeout = timeout / 2 })
  if written then return written.etag end
  return nil, err
end

--- Takes a row away, if it is still what was read.
---@return true|nil, synod.Error? err
function Roster:remove(record)
  local gone, err = self.table:delete(self.group, record.row, { if_match = record.etag })
  if gone or err.code == "ResourceNotFound" or err.code == "TableNotFound" then return true end
  return nil, err
end

---------------------------------------------------------------- everybody's

local function query(self)
  local records = {}
  for e in self.table:query { partition = self.group } do
    local record = record_of(e)
    if record then records[#records + 1] = record end
  end
  return records
end

--- What the store refuses comes back; what is raised in the task (a cancel) goes on.
local function read_all(self)
  local ok, records = pcall(query, self)
  if ok then return records end
  local err = records
  if type(err) ~= "table" or err.operation ~= QUERY then error(err, 0) end
  if err.code == "TableNotFound" then return {} end
  return nil, err
end

local function observe(seen, record, now)
  local stamp = ("%s %d"):format(record.nonce, record.beat)
  if not seen then return { stamp = stamp, at = now, first = now } end
  if seen.stamp ~= stamp then seen.stamp, seen.at, seen.changed = stamp, now, true end
  return seen
end

---@class synod.Member
---@field id string
---@field deployment string
---@field incarnation integer
---@field info any
---@field since string   UTC, of its join
---@field sure boolean   it was seen to change: false of one that may have died before the first look

--- Looks at all records. Those that have not changed for their ttl are left out; those that have not for much longer
--- are taken away.
---@param own? synod.Roster.Record  ours, which we need not observe
---@return synod.Member[]|nil members, synod.Error? err  in the order of their ids
function Roster:look(own)
  local asked = core.instant()
  local records, err = read_all(self)
  if not records then return nil, err end
  local now, members, seen = core.instant(), {}, {}
  for _, record in ipairs(records) do
    local s = observe(self.seen[record.row], record, now)
    seen[record.row] = s
    local still = (asked - s.at) / 1e9
    local is_own = own and own.nonce == record.nonce
    if is_own or still <= record.ttl * RATE then
      members[#members + 1] = {
        id = record.id, deployment = record.deployment, incarnation = record.incarnation, info = record.info,
        since = record.since, sure = is_own or s.changed or false,
      }
    elseif still > record.ttl * SWEEP then
      self:remove(record)
    end
  end
  self.seen = seen
  table.sort(members, function(a, b)
    if a.deployment ~= b.deployment then return a.deployment < b.deployment end
    return a.id < b.id
  end)
  return members
end

return roster
