-- cron: work at given times, each time on one instance.
--
--   local cron = require "synod.cron"
--   local jobs = cron.new { zone = "Europe/Berlin" }
--   jobs:every("30 2 * * mon-fri", "report", function(slot) return write_report(slot.at) end)
--   jobs:every(300, "refresh", refresh)
--   assert(jobs:run())                                     -- until the instance is stopped
--
-- All instances run the same schedules. Each time of a schedule is a slot, known by its nominal instant; whoever takes
-- the lease of the slot's blob first runs it, under a guard, and writes what became of it there. A runner that dies
-- loses the lease, and another takes over. docs/reference/cron.md is the manual; calendar.lua says when, slots.lua
-- knows the records, runner.lua settles one slot.

local calendar = require "synod.cron.calendar"
local core = require "synod.core"
local lease = require "synod.lease"
local log = require "synod.log"
local note = require("synod.plan").note
local options = require "synod.options"
local outage = require "synod.outage"
local runner = require "synod.cron.runner"
local slots = require "synod.cron.slots"
local task = require "synod.task"
local zone = require "synod.cron.zone"

local cron = {}

local CONTAINER = "cron"
local TTL_S = 30
local LATE_S = 60
local LIMIT, LIMIT_MAX = 100, 10000
local STOP_S = 8           -- for slots to end at a controlled stop, whose handlers have 10 s
local SLEEP_MAX_S = 60     -- the wall clock may be set meanwhile
local AGAIN_S = 5          -- between looks at what was missed, while the store does not answer
local AT_ONCE_MAX = 16     -- slots of one schedule
local DRAINED = "the schedules are drained"
local MONTH_MS = 30 * 24 * 3600 * 1000
local RUN_REQUESTS, SEE_REQUESTS = 10, 4 -- about: of who runs a short slot, and of another who sees it run

---@alias synod.Cron.Once "at-least"|"at-most"
---@alias synod.Cron.CatchUp "none"|"last"|"all"

---@class synod.Cron.Job.Options
---@field zone? string      an IANA time zone, such as "Europe/Berlin" ("UTC")
---@field once? synod.Cron.Once  when a runner died in the middle: again, or never again ("at-least")
---@field catch_up? synod.Cron.CatchUp  which of the slots are run that nobody was there for ("none")
---@field limit? integer    at most so many are run at once of what has come due meanwhile, the latest (100)
---@field late? number      seconds after which a slot that nobody began is missed (60)

---@class synod.Cron.Options: synod.Cron.Job.Options  for all schedules that say nothing else
---@field ttl? number       seconds until the slot of a runner that died is another's (30)
---@field stop_timeout? number  seconds that slots have to end at a controlled stop (8)
---@field store? synod.Store     synod.store
---@field container? string      "cron"
---@field instance? synod.Instance  who this is (synod.instance)

local JOB = { zone = "string", once = "string", catch_up = "string", limit = "count", late = "positive" }
local NEW = {
  zone = "string", once = "string", catch_up = "string", limit = "count", late = "positive", ttl = "positive",
  stop_timeout = "seconds", store = "store", container = "string", instance = "table",
}

---@class synod.Slot  what a function is called with
---@field id string      "20240331T010000Z"
---@field name string    the schedule's
---@field at number      its nominal instant, seconds since 1970
---@field fence integer
---@field held synod.Held  for fenced writes

---@class synod.Cron.Job
---@field name string
---@field plan synod.Plan
---@field fn fun(slot: synod.Slot): any
---@field slots synod.Slots

---@class synod.Cron
local Cron = {}
Cron.__index = Cron
Cron.__name = "synod.Cron"

local function wall_ms()
  return math.floor(core.time() * 1000)
end

local function problem_with(o)
  if o.once and o.once ~= "at-least" and o.once ~= "at-most" then
    return ("once = '%s' is neither \"at-least\" nor \"at-most\""):format(o.once)
  end
  if o.catch_up and o.catch_up ~= "none" and o.catch_up ~= "last" and o.catch_up ~= "all" then
    return ("catch_up = '%s' is neither \"none\" nor \"last\" nor \"all\""):format(o.catch_up)
  end
  if o.limit and o.limit > LIMIT_MAX then
    return ("limit = %d is more than are caught up with at once (%d)"):format(o.limit, LIMIT_MAX)
  end
end

local function problem_of_zone(name)
  local of, err = zone.open(name)
  return of, err and options.words_of(err)
end

--- Makes schedules; makes no request.
---@param given? synod.Cron.Options
---@return synod.Cron
function cron.new(given)
  local o = options.read("cron.new", given, NEW)
  o.zone, o.once, o.catch_up = o.zone or "UTC", o.once or "at-least", o.catch_up or "none"
  o.limit, o.late, o.ttl, o.stop_timeout = o.limit or LIMIT, o.late or LATE_S, o.ttl or TTL_S, o.stop_timeout or STOP_S
  local _, why = problem_of_zone(o.zone)
  local problem = problem_with(o) or why
  if problem then options.refuse("cron.new: %s", problem) end
  o.store = o.store or require("synod").store
  o.instance = o.instance or require("synod").instance
  local container = o.store:container(o.container or CONTAINER)
  local ok, refused = pcall(lease.contender, container:blob "ttl", { ttl = o.ttl, instance = o.instance })
  if not ok then options.refuse("cron.new: %s", (options.words_of(refused):gsub("^.-lease%.contender: ", ""))) end
  return setmetatable({
    options = o, container = container, jobs = {}, by_name = {}, silence = outage.new "cron",
  }, Cron)
end

--- Of an instance that runs all slots, and of one that sees them run, when each is over soon.
local function requests_a_month(plan)
  local now = wall_ms()
  local found, more = plan:between(now, now + MONTH_MS, 1)
  local count = #found + more
  return count * RUN_REQUESTS, count * SEE_REQUESTS
end

--- Adds a schedule. All instances that are to share it give the same name, spec and zone.
---@param spec string|number  a cron line, a word such as "@daily", or seconds
---@param name string
---@param fn fun(slot: synod.Slot): any  its result is kept: anything that JSON can say
---@param given? synod.Cron.Job.Options
---@return synod.Cron
function Cron:every(spec, name, fn, given)
  local o = options.read("cron:every", given, JOB)
  if type(name) ~= "string" or #name > 200 or not name:find("^[%w_-]+$") then
    options.refuse("cron:every: a name of letters, digits, '_' and '-' is expected, got %s", tostring(name))
  end
  if self.by_name[name] then options.refuse("cron:every: there is a schedule '%s' already", name) end
  if type(fn) ~= "function" then options.refuse("cron:every: a function expected, got %s", type(fn)) end
  local problem = problem_with(o)
  local of, why = problem_of_zone(o.zone or self.options.zone)
  local plan
  if of and not problem then plan, why = calendar.parse(spec, of) end
  if not plan then options.refuse("cron:every: %s", problem or why) end
  local job = {
    name = name, plan = plan, fn = fn, slots = slots.of(self.container, name), once = o.once or self.options.once,
    catch_up = o.catch_up or self.options.catch_up, limit = o.limit or self.options.limit,
    late = o.late or self.options.late,
  }
  note {
    policy = "cron", name = name, ttl = self.options.ttl, look_max = self.options.ttl / 2, told = "store",
    a_month = function() return requests_a_month(plan) end,
  }
  self.jobs[#self.jobs + 1], self.by_name[name] = job, job
  return self
end

---------------------------------------------------------------- running

--- Runs a slot in a task of its own, in its turn.
local function begin_slot(self, job, id)
  if job.open[id] then return end
  while job.count >= AT_ONCE_MAX do
    job.fewer:clear()
    job.fewer:wait()
  end
  local slot = { name = job.name, id = id, at = calendar.instant(id) / 1000 }
  job.open[id] = slot
  job.count = job.count + 1
  slot.task = core.spawn(function()
    local _ <close> = setmetatable({}, { __close = function()
      job.open[id] = nil
      job.count = job.count - 1
      job.fewer:set()
      if not self:is_busy() then self.idle:set() end
    end })
    self.idle:clear()
    runner.settle(self, job, slot)
  end)
end

--- Which of the slots that have come due since `from` are to be run: all that are not late yet, and of those that are,
--- since nobody was there for them, what catch_up says.
---@return integer[] instants, boolean all  false: some are passed over
local function chosen(job, from, now)
  local found, left_out = job.plan:between(from, now, job.limit)
  if job.catch_up == "all" then
    if left_out > 0 then
      log.warn("more slots were missed than are caught up with", { name = job.name, left_out = left_out })
    end
    return found, left_out == 0
  end
  local timely = {}
  for _, at in ipairs(found) do
    if now - at <= job.late * 1000 then timely[#timely + 1] = at end
  end
  if #timely == 0 and job.catch_up == "last" then timely[1] = found[#found] end
  return timely, left_out == 0 and #timely == #found
end

--- What was begun and never finished: somebody died.
local function resume(self, job, list)
  local first = math.max(1, #list - job.limit + 1)
  for i = first, #list do
    local state = list[i].state
    if state ~= "done" and state ~= "failed" and state ~= "abandoned" then begin_slot(self, job, list[i].id) end
  end
end

--- The instant up to which everything has been taken care of; of a schedule that has never run: now.
local function look_back(self, job)
  while true do
    local list, err = job.slots:list()
    if list or runner.is_passing(err) then self.silence:note(err) end
    if list then
      resume(self, job, list)
      local last = list[#list]
      return last and math.min(last.at, wall_ms()) or wall_ms()
    end
    if not runner.is_passing(err) then
      self:fail(err)
      return nil
    end
    core.sleep(AGAIN_S)
  end
end

local function follow(self, job)
  local from = look_back(self, job)
  local looked = true
  while from do
    local now = wall_ms()
    local due, all = chosen(job, from, now)
    for _, at in ipairs(due) do begin_slot(self, job, calendar.id(at)) end
    from = math.max(from, now)
    -- What we come too late for another may have begun, and may die before it is finished.
    if not (all or looked) and not look_back(self, job) then return end
    looked = false
    local next_at = job.plan:after(from)
    while next_at and wall_ms() < next_at do
      core.sleep(math.min(SLEEP_MAX_S, (next_at - wall_ms()) / 1000))
    end
  end
end

--- Whether a slot's function runs here, or is about to.
---@return boolean
function Cron:is_busy()
  for _, job in ipairs(self.jobs) do
    for _, slot in next, job.open or {} do
      if slot.running then return true end
    end
  end
  return false
end

--- Ends run() with an err.
---@param err synod.Error
function Cron:fail(err)
  self.failure = self.failure or err
  self.over:set()
end

local function begin(self)
  self.failure, self.over, self.idle, self.followers = nil, core.event(), core.event(), {}
  self.idle:set()
  for i, job in ipairs(self.jobs) do
    job.open, job.count, job.fewer = {}, 0, core.event()
    self.followers[i] = core.spawn(follow, self, job)
  end
end

--- No more slots are begun; those that run have `timeout` to end, and are cancelled then. A cancel meanwhile ends that
--- wait, and nothing else: it is kept.
---@return boolean all, any cancelled
local function drain(self, timeout)
  local cancelled = task.stop(self.followers, DRAINED)
  local waiting, running = {}, {}
  for _, job in ipairs(self.jobs) do
    for _, slot in next, job.open do table.insert(slot.running and running or waiting, slot.task) end
  end
  cancelled = task.stop(waiting, DRAINED) or cancelled
  local all = not self:is_busy()
  if not all then
    local ok, idle = pcall(self.idle.wait, self.idle, cancelled == nil and timeout or 0)
    if not ok then cancelled = idle end
    all = ok and idle ~= nil
  end
  cancelled = task.stop(running, DRAINED) or cancelled
  self.over:set()
  return all, cancelled
end

--- Runs the schedules until drain() or a controlled stop.
---@return true|nil, synod.Error? err  what the store refuses for good
function Cron:run()
  if #self.jobs == 0 then options.refuse("cron:run: there is no schedule: add one with every()") end
  if self.followers then options.refuse("cron:run: it runs already") end
  if not self.stops then
    self.stops = true
    task.on("stopping", function() self:drain() end)
  end
  self.begun = true
  if self.early then
    self.early = false
    return true
  end
  begin(self)
  local _ <close> = setmetatable({}, {
    __close = function(_, err)
      local _, cancelled = drain(self, 0)
      self.followers = nil
      if cancelled ~= nil and err == nil then error(cancelled, 0) end
    end,
  })
  self.over:wait()
  if self.failure then return nil, self.failure end
  return true
end

local DRAIN = { timeout = "seconds" }

--- Ends run(): no more slots are begun, and those that run may end. Those that take longer are cancelled, and are
--- another's to run when they are "at-least" once.
---@param given? { timeout?: number }  seconds (stop_timeout)
---@return boolean all  every slot ended by itself
function Cron:drain(given)
  given = options.read("cron:drain", given, DRAIN)
  if not self.followers then
    self.early = not self.begun -- a run that is about to begin ends at once
    return true
  end
  local all, cancelled = drain(self, given.timeout or self.options.stop_timeout)
  if cancelled ~= nil then error(cancelled, 0) end
  return all
end

---------------------------------------------------------------- asking

--- What became of a slot.
---@param name string   the schedule's
---@param slot string|number  its id, or its nominal instant in seconds since 1970
---@return synod.SlotRecord|nil record, synod.Error? err  state "none": nobody has begun it
function Cron:result(name, slot)
  local id = slot
  local ms = type(slot) == "number" and math.tointeger(math.floor(slot * 1000 + 0.5))
  if ms then id = calendar.id(ms) end
  if type(id) ~= "string" or not calendar.instant(id) then
    options.refuse("cron:result: a slot's id such as \"20240331T010000Z\" or its instant expected, got %s",
      tostring(slot))
  end
  if type(name) ~= "string" then options.refuse("cron:result: a name expected, got %s", type(name)) end
  return slots.of(self.container, name):read(id)
end

return cron
