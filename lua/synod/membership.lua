-- membership: who is up, and what they say about themselves.
--
--   local workers <close> = membership.new { name = "workers", ttl = 30 }
--   assert(workers:join { info = { address = "10.0.0.4:7000" } })
--   for _, member in ipairs(assert(workers:members())) do print(member.id, member.info.address) end
--
-- A member writes a beat into its record each third of ttl. Others judge by that alone: who sees a record unchanged for
-- its ttl takes the member for dead. So a member that cannot write is dead to the others, and learns of it at the same
-- time, by its own clock. docs/reference/membership.md is the manual, roster.lua the records.

local backoff = require "synod.backoff"
local core = require "synod.core"
local json = require "synod.json"
local log = require "synod.log"
local new_nonce = require "synod.nonce"
local options = require "synod.options"
local outage = require "synod.outage"
local plan = require "synod.plan"
local roster = require "synod.membership.roster"
local task = require "synod.task"

local membership = {}

local TABLE = "members"
local TTL_S, TTL_MIN_S = 30, 0.5
local RATE = 0.99        -- our clock may run so much slower than a watcher's
local AGAIN_S = 1        -- between beats that fail, at most; and a tenth of ttl
local ENTER_TRIES = 5
local NONCE_BYTES = 16
local INFO_MAX = 30000   -- bytes of JSON: a property has 64 KiB of UTF-16

---@class synod.Membership.Options
---@field name string        the group
---@field ttl? number        seconds after which a member that says nothing is taken for dead, from 0.5 (30)
---@field lost? fun(err: synod.Error)  called when this member could not say that it lives, or was replaced
---@field store? synod.Store      synod.store
---@field table? string           "members"
---@field deployment? string      instance.deployment
---@field instance? synod.Instance  who this is (synod.instance)
---@field poll_min? number   seconds between looks of watch() over a store that tells of no change (ttl / 6) ...
---@field poll_max? number   ... at most (ttl / 2)

local NEW = {
  name = "label", ttl = "positive", lost = "callable", store = "store", table = "string", deployment = "string",
  instance = "table", poll_min = "positive", poll_max = "positive",
}

---@class synod.Membership
local Membership = {}
Membership.__index = Membership
Membership.__name = "synod.Membership"
Membership.__close = function(self) self:leave() end

--- Makes a membership; makes no request.
---@param given synod.Membership.Options
---@return synod.Membership
function membership.new(given)
  local o = options.read("membership.new", given, NEW)
  local who = o.instance or require("synod").instance
  if not o.name then options.refuse("membership.new: a name is needed, such as name = \"workers\"") end
  o.ttl = o.ttl or TTL_S
  if o.ttl < TTL_MIN_S then
    options.refuse("membership.new: ttl = %g s leaves less than %g s for a beat, of which each ttl has three",
      o.ttl, TTL_MIN_S / 3)
  end
  local fault = core.name_fault("table", o.table or TABLE)
  if fault then options.refuse("membership.new: the table name '%s' %s", o.table, fault) end
  o.poll_min = o.poll_min or math.min(o.ttl / 6, o.poll_max or o.ttl / 6)
  o.poll_max = o.poll_max or math.max(o.ttl / 2, o.poll_min)
  if o.poll_max < o.poll_min then
    options.refuse("membership.new: poll_max (%g s) is below poll_min (%g s)", o.poll_max, o.poll_min)
  end
  if not o.deployment and who.deployment ~= "" then o.deployment = who.deployment end
  local look = backoff.mean(o.poll_min, o.poll_max)
  plan.note { policy = "membership", name = tostring(o.name), beat = o.ttl / 3, look = look, idle = look }
  o.store = o.store or require("synod").store
  o.table = o.table or TABLE
  return setmetatable({
    options = o, id = who.id, roster = roster.of(o.store:table(o.table), tostring(o.name)), over = core.event(),
  }, Membership)
end

---------------------------------------------------------------- beating

local function describe(self)
  return ("the membership of %s in '%s'"):format(self.id, self.options.name)
end

local function lose(self, why)
  local err = core.new_error {
    code = "MembershipLost", operation = "keep", target = describe(self), message = why,
  }
  self.record, self.err = nil, err
  self.over:set(err)
  if self.options.lost then core.spawn(self.options.lost, err) end
end

local function left(self)
  return (self.ends - core.instant()) / 1e9
end

--- Others may take us for dead when the ttl has passed since this was sent.
local function confirmed(self, record, etag, sent)
  record.etag, self.doubt = etag, nil
  self.ends = sent + math.floor(self.options.ttl * RATE * 1e9)
end

--- The record is not as we wrote it: our own write whose answer was lost, another incarnation, or none.
local function reread(self, record)
  local found, err = self.roster:read(record.row, math.max(0.001, left(self)))
  if err then return end
  if not found then return lose(self, "the others took it for dead, and its row is gone") end
  if found.nonce ~= record.nonce then
    return lose(self, ("incarnation %d has taken its place"):format(found.incarnation))
  end
  local is_ours = found.beat > record.beat
  record.beat = found.beat
  record.etag = found.etag
  if is_ours then confirmed(self, record, found.etag, self.doubt) end -- it may be of an earlier try
end

local function beat(self, record)
  local sent = core.instant()
  local etag, err = self.roster:beat(record, record.beat + 1, math.max(0.001, left(self)))
  if etag then
    record.beat = record.beat + 1
    confirmed(self, record, etag, sent)
    return
  end
  self.doubt = self.doubt or sent -- until it is known what became of it
  if err.code == "UpdateConditionNotSatisfied" or err.code == "ResourceNotFound" or err.code == "AnswerLost" then
    reread(self, record)
  else
    log.debug("a beat was not confirmed", { member = self.id, group = self.options.name, why = tostring(err) })
  end
end

local function live(self, record)
  local ttl = self.options.ttl
  local next_at = core.instant()
  while self.record == record do
    next_at = math.min(next_at, core.instant()) + math.floor(ttl / 3 * 1e9) -- an update has made one sooner
    self.hurry:wait(math.max(0, math.min((next_at - core.instant()) / 1e9, left(self))))
    self.hurry:clear()
    while self.record == record do
      if left(self) <= 0 then return lose(self, ("no beat was confirmed for %g s"):format(ttl)) end
      local before = record.beat
      beat(self, record)
      if record.beat ~= before then break end
      if self.record == record then core.sleep(math.max(0.001, math.min(AGAIN_S, ttl / 10, left(self)))) end
    end
    next_at = math.max(next_at, core.instant() - math.floor(ttl / 3 * 1e9))
  end
end

---------------------------------------------------------------- the calls

local JOIN = { info = "any" }

local function check_info(info)
  local ok, text = pcall(json.encode, info)
  if not ok then return "info: " .. tostring(text) end
  if #text > INFO_MAX then return ("info is %d bytes of JSON, and a record takes %d"):format(#text, INFO_MAX) end
end

--- A record of our own over whatever stands there: this is the newest incarnation of the instance.
local function enter(self, info)
  local row = roster.row(self.options.deployment, self.id)
  local nonce = new_nonce(NONCE_BYTES)
  local err, sent
  for _ = 1, ENTER_TRIES do
    local over
    over, err = self.roster:read(row)
    if err then return nil, err end
    sent = sent or core.instant() -- the others may have seen what the first try wrote
    local record = {
      row = row, nonce = nonce, info = info, beat = 0, ttl = self.options.ttl, since = core.iso_time(core.time(), 3),
      incarnation = over and over.incarnation + 1 or math.floor(core.time() * 1000),
    }
    local etag
    if over and over.nonce == nonce then -- our own, whose answer was lost
      record, etag = over, over.etag
    else
      etag, err = self.roster:enter(record, over)
    end
    if etag then
      confirmed(self, record, etag, sent)
      return record
    end
    if err.code ~= "EntityAlreadyExists" and err.code ~= "UpdateConditionNotSatisfied"
      and err.code ~= "ResourceNotFound" then
      return nil, err
    end
  end
  return nil, err
end

--- Looks now and once more, so that rows of the dead go even where nobody watches.
local function look_after(self, record)
  if not self.roster:look(record) then return end
  core.sleep(self.options.ttl * 4)
  if self.record == record then self.roster:look(record) end
end

--- Says that this instance is up, and goes on saying so. An earlier incarnation of it is replaced.
---@param given? { info?: any }  what the others shall know: anything that JSON can say
---@return true|nil, synod.Error? err
function Membership:join(given)
  given = options.read("membership:join", given, JOIN)
  local problem = check_info(given.info)
  if problem then options.refuse("membership:join: %s", problem) end
  if not self.id then
    options.refuse("membership:join: this instance has no name: run it with -n N, or name it with --instance ID")
  end
  if self.record then options.refuse("membership:join: it has joined; update(info) tells something else") end
  local record, err = enter(self, given.info)
  if not record then return nil, err end
  self.record, self.err, self.hurry = record, nil, core.event()
  self.over:clear()
  self.tasks = { core.spawn(live, self, record):detach(), core.spawn(look_after, self, record):detach() }
  return true
end

--- Tells the others something else, with the next beat, which comes at once.
---@param info any
function Membership:update(info)
  local problem = check_info(info)
  if problem then options.refuse("membership:update: %s", problem) end
  if not self.record then options.refuse("membership:update: it has not joined") end
  self.record.info = info
  self.hurry:set()
end

--- The err with which this member ceased to be one; nil while it is, and when it left by itself.
---@return synod.Error|nil
function Membership:lost()
  return self.err
end

--- Waits until this member has ceased to be one against its will.
---@param timeout? number
---@return synod.Error|nil err  nil: not within the timeout
function Membership:wait_lost(timeout)
  return (self.over:wait(timeout))
end

local function remove(self, record)
  local gone, err = self.roster:remove(record)
  if gone or err.code ~= "UpdateConditionNotSatisfied" then return gone, err end
  local found, why = self.roster:read(record.row) -- a beat of ours may have come through without an answer
  if why then return nil, why end
  if not found or found.nonce ~= record.nonce then return true end
  return self.roster:remove(found)
end

--- Takes the record away: the others see at once that this instance is gone.
---@return true|nil, synod.Error? err  the others will see it when the ttl has passed
function Membership:leave()
  local record, tasks = self.record, self.tasks or {}
  self.record, self.tasks = nil, nil
  local cancelled = task.stop(tasks)
  local gone, err = true, nil
  if record then gone, err = remove(self, record) end
  if cancelled ~= nil then error(cancelled, 0) end
  return gone, err
end

local MEMBERS = { settle = "boolean" }

local function all_sure(members)
  for _, member in ipairs(members) do
    if not member.sure then return false end
  end
  return true
end

--- How backoff.poll looks at the group.
local function looking(self)
  local o = self.options
  return { store = o.store, container = o.table, min = o.poll_min, max = o.poll_max, recheck = o.ttl / 6 }
end

--- Who is up. The first look of an object cannot tell who has died shortly before it: members that have not been seen
--- to change have `sure = false`. With `settle` it waits until that is clear of everyone.
---@param given? { settle?: boolean }
---@return synod.Member[]|nil members, synod.Error? err  in the order of their ids
function Membership:members(given)
  given = options.read("membership:members", given, MEMBERS)
  if not given.settle then return self.roster:look(self.record) end
  local refusal
  local settled = backoff.poll(function()
    local members, err = self.roster:look(self.record)
    if err and not err.retryable and err.code ~= "Timeout" then refusal = err end
    return refusal or members and all_sure(members) and members
  end, looking(self))
  if refusal then return nil, refusal end
  return settled
end

local function sign(member)
  return ("%d %s"):format(member.incarnation, json.encode(member.info))
end

---@class synod.Membership.Changes
---@field joined string[]   ids, as in those that follow
---@field left string[]
---@field changed string[]  another incarnation, or other info

--- What has become of each since the last time; nil when nothing has, and there was a last time.
local function changes_since(known, members)
  local changes, now = { joined = {}, left = {}, changed = {} }, {}
  local any = known == nil
  known = known or {}
  for _, member in ipairs(members) do
    local key = member.deployment .. "|" .. member.id
    now[key] = { id = member.id, sign = sign(member) }
    if not known[key] then
      table.insert(changes.joined, member.id)
    elseif known[key].sign ~= now[key].sign then
      table.insert(changes.changed, member.id)
    end
  end
  for key, entry in next, known do
    if not now[key] then table.insert(changes.left, entry.id) end
  end
  table.sort(changes.left)
  any = any or #changes.joined + #changes.left + #changes.changed > 0
  return any and changes or nil, now
end

local function watch(self, fn)
  local known, silence = nil, outage.new "membership"
  while true do
    local members, changes = backoff.poll(function()
      local members, err = self.roster:look(self.record)
      silence:note(err, { group = self.options.name })
      if not members then return nil end
      local changes, now = changes_since(known, members)
      known = now
      return changes and members, changes
    end, looking(self))
    fn(members, changes)
  end
end

--- Calls fn with the members at once, and again whenever they change.
---@param fn fun(members: synod.Member[], changes: synod.Membership.Changes)
---@return synod.Task  cancel it to end
function Membership:watch(fn)
  if type(fn) ~= "function" then options.refuse("membership:watch: a function expected, got %s", type(fn)) end
  return core.spawn(watch, self, fn)
end

return membership
