-- quorum: going on when enough are there.
--
--   local quorum = require "synod.quorum"
--   local cluster <close> = quorum.new { name = "cluster" }     -- of instance.count, a majority
--   assert(cluster:wait { timeout = 60 })
--   cluster:head(function(term) ... end)                        -- one of them, while enough are live
--
--   local held <close> = assert(quorum.new({ name = "x" }):lease { stores = { s1, s2, s3 } })
--
-- Who is live is membership's to say, the head node is elected as any leader, and the lease over several stores is
-- majority.lua. docs/reference/quorum.md is the manual.

local backoff = require "synod.backoff"
local core = require "synod.core"
local election = require "synod.election"
local majority = require "synod.quorum.majority"
local membership = require "synod.membership"
local options = require "synod.options"
local seat = require "synod.seat"
local turns = require "synod.turns"

local quorum = {}

local MEMBER_TTL_S = 15
local STORES_MAX = 9
local PAGE_BYTES = 512

---@class synod.Quorum.Options: synod.Seat.Options
---@field need? "majority"|integer  how many must be live ("majority")
---@field parties? integer          of how many a majority is taken (instance.count)
---@field member_ttl? number        seconds after which one who says nothing is taken for dead (15)

local NEW = seat.kinds { need = "any", parties = "count", member_ttl = "positive" }
local WAIT = { timeout = "seconds" }
local HEAD = { once = "boolean", timeout = "seconds" }
local LEASE = { stores = "table", timeout = "seconds" }

---@class synod.Quorum
local Quorum = {}
Quorum.__index = Quorum
Quorum.__name = "synod.Quorum"
Quorum.__close = function(self) self:leave() end

--- How many are needed; nil, and why that cannot be.
local function needed(o)
  local need = o.need or "majority"
  if need == "majority" then return o.parties and o.parties // 2 + 1 end
  if math.type(need) ~= "integer" or need < 1 then
    return nil, "option 'need' must be \"majority\" or a whole number from 1 on"
  end
  if o.parties and need > o.parties then
    return nil, ("need = %d of parties = %d can never be live"):format(need, o.parties)
  end
  return need
end

--- Makes no request.
---@param given synod.Quorum.Options
---@return synod.Quorum
function quorum.new(given)
  local o, problem = seat.complete(options.read("quorum.new", given, NEW), "cluster")
  if problem then options.refuse("quorum.new: %s", problem) end
  o.purpose = o.purpose or "quorum"
  o.parties = o.parties or o.instance.count
  local need, why = needed(o)
  if why then options.refuse("quorum.new: %s", why) end
  return setmetatable({ options = o, need = need, joining = turns.new(1) }, Quorum)
end

---------------------------------------------------------------- who is live

local function check_need(self, call)
  if not self.need then
    error(core.new_error {
      code = "Usage", message = call .. ": how many instances there are is not known: give need = N or parties = N, "
        .. "or run with -n N or --instances N",
    }, 0)
  end
end

local function is_member(self)
  return self.members and not self.members:lost()
end

--- This instance is one of those who count, from the first call on that asks about them. One that could not say for a
--- while that it lives, as a process that was stopped, becomes one again. So does one in whose place another process of
--- its name came: that may be the one that was stopped, and is about to end.
local function join(self)
  if is_member(self) then return true end
  local place = self.joining:take(1) -- several tasks may ask
  local _ <close> = setmetatable({}, { __close = function() self.joining:give(place) end })
  if is_member(self) then return true end
  if self.members then return self.members:join() end
  local o = self.options
  local members = membership.new {
    name = "quorum-" .. o.name, ttl = o.member_ttl or MEMBER_TTL_S, store = o.store, instance = o.instance,
  }
  local joined, err = members:join()
  if not joined then return nil, err end
  self.members = members
  -- Who lives is seen by looking again and again; whoever asks shall not have to wait for that.
  self.watching = members:watch(function() end):detach()
  return true
end

--- The ids of those who are known to live: seen to change, or this one.
---@return string[]|nil live, synod.Error? err
local function live(self)
  local joined, err = join(self)
  if not joined then return nil, err end
  local members, why = self.members:members()
  if not members then return nil, why end
  local ids = {}
  for _, member in ipairs(members) do
    local own = member.id == self.options.me
    if own and not self.members:lost() or not own and member.sure then ids[#ids + 1] = member.id end
  end
  return ids
end

---@class synod.Quorum.Present
---@field count integer     how many are live
---@field need integer
---@field members string[]  ids

--- Waits until enough are live, this instance among them.
---@param given? { timeout?: number }  seconds; 0: look once; nothing: for ever
---@return synod.Quorum.Present|nil, synod.Error? err  Timeout, with err.count; what the store refuses
function Quorum:wait(given)
  given = options.read("quorum:wait", given, WAIT)
  check_need(self, "quorum:wait")
  local o, count, refusal = self.options, 0, nil
  local ttl = o.member_ttl or MEMBER_TTL_S
  local ids = backoff.poll(function()
    local ids, err = live(self)
    refusal = err
    if err and not err.retryable then return true end
    count = ids and #ids or count
    return count >= self.need and ids
  end, {
    store = o.store, container = "members", timeout = given.timeout, min = ttl / 6, max = ttl / 3, recheck = ttl / 6,
  })
  if refusal then return nil, refusal end
  if ids then return { count = #ids, need = self.need, members = ids } end
  local err = core.new_error {
    code = "Timeout", operation = "wait for", target = ("the quorum '%s'"):format(o.name),
    message = ("%d of %d needed were live when %g s had passed"):format(count, self.need, given.timeout),
  }
  err.count = count
  return nil, err
end

--- Are enough live, as far as one look shows?
---@return boolean|nil held, integer|synod.Error count  nil, err: the store has refused
function Quorum:held()
  check_need(self, "quorum:held")
  local ids, err = live(self)
  if not ids then return nil, err end
  return #ids >= self.need, #ids
end

--- Says that this instance is gone.
---@return true|nil, synod.Error? err
function Quorum:leave()
  local members = self.members
  self.members = nil
  if not members then return true end
  self.watching:cancel()
  return members:leave()
end

---------------------------------------------------------------- the head node

--- The page blob that the head node holds, made by whoever is first.
local function make_page(self)
  local o = self.options
  local container = o.store:container(o.container)
  local blob = container:blob("quorum/" .. o.name)
  local how = { type = "page", size = PAGE_BYTES, if_none_match = "*" }
  local props, err = blob:put("", how)
  if not props and err.code == "ContainerNotFound" then
    props, err = container:create()
    if props then props, err = blob:put("", how) end
  end
  if props then return true end
  local there = err.code == "BlobAlreadyExists" or err.code == "ConditionNotMet" or err.code == "LeaseIdMissing"
  if there then return true end
  return nil, err
end

local function head_of(self)
  if self.election then return self.election end
  local o = setmetatable({
    purpose = "head node",
    healthy = function()
      local held, count = self:held()
      if held ~= false then return true end -- a store that does not answer ends the lease, if it stays so
      return false, ("%d of %d needed are live"):format(count, self.need)
    end,
  }, { __index = self.options })
  self.election = election.of(o, "quorum/" .. self.options.name)
  return self.election
end

--- Nominates one of the live as the head node, and runs fn(term) there while enough are live: as election:lead does.
---@param fn fun(term: synod.Term): ...
---@param given? { once?: boolean, timeout?: number }
---@return ...
function Quorum:head(fn, given)
  given = options.read("quorum:head", given, HEAD)
  if type(fn) ~= "function" then options.refuse("quorum:head: a function expected, got %s", type(fn)) end
  check_need(self, "quorum:head")
  local made, err = make_page(self)
  if not made then return nil, err end
  return head_of(self):lead(fn, given)
end

--- Who is the head node; nil without an err: nobody.
---@return synod.Leader|nil, synod.Error? err
function Quorum:leader()
  return head_of(self):leader()
end

---------------------------------------------------------------- several stores

--- Holds a majority of the leases of this name over several stores.
---@param given { stores: synod.Store[], timeout?: number }
---@return synod.MajorityLease|nil, synod.Error? err  Timeout; see docs
function Quorum:lease(given)
  given = options.read("quorum:lease", given, LEASE)
  local stores, o = given.stores or {}, self.options
  if #stores < 3 or #stores > STORES_MAX or #stores % 2 == 0 then
    options.refuse("quorum:lease: an odd number of stores from 3 to %d expected, got %d: of two, none may fail",
      STORES_MAX, #stores)
  end
  if o.timing.record then
    options.refuse("quorum:lease: ttl = %g s is a record, and a majority is made of the stores' own leases: 15 to 60 s",
      o.ttl)
  end
  return majority.new(o, stores, "quorum/" .. o.name .. ".lease"):take(given.timeout)
end

return quorum
