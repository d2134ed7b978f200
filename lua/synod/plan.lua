-- plan: what the settings of a policy come to, as arithmetic: how soon another takes over, within which bounds nobody
-- overlaps, and what it asks of the store.
--
--   plan.note { policy = "mutex", name = "account", ttl = 15 }     each policy's `new`: kept while somebody collects
--   local notes = plan.collect(fn)                                 what was made while fn ran
--   local p = plan.of(note)                                        the figures; `synod explain` prints them
--
-- What a policy notes: `policy`, `name`; `ttl`, `renew` (and `leases`, when it holds more than one at a time) where it
-- holds leases; `look` and `idle` (seconds between requests of one who waits, without and with hints), `look_max` (...
-- between its looks for a lease, at most), `read` (... between its looks for somebody who gives hints, while nobody
-- does); `told`: by what who waits is told of changes, "hints" where there are some (when absent), "store" where that
-- tells, or "nothing"; `stale` (seconds unchanged, before which nobody tries whether a record is dead); `beat` (seconds
-- between writes of a member); or `a_month`, which gives the requests of who holds and of who waits.

local core = require "synod.core"

local plan = {}

local MONTH_S = 30 * 24 * 3600
local NOTES_MAX = 1000
local LOOKS_PER_TTL = 15  -- of who waits for a lease, over a store that tells of no change
local JITTER = 0.75       -- the shortest of the waits in between, as a part of the longest
local IDLE_S = 30         -- between looks while a hint stands
local TAKE_REQUESTS = 4   -- to take a lease that looks free: look, take, read and write the fence

local collected -- while somebody collects

---@class synod.plan.Note
---@field policy string
---@field name string
---@field ttl? number
---@field renew? number
---@field leases? integer
---@field look? number
---@field idle? number
---@field look_max? number
---@field read? number
---@field told? "hints"|"store"|"nothing"
---@field stale? number
---@field beat? number
---@field a_month? fun(): integer, integer

--- Says that a policy was made; costs nothing unless somebody collects.
---@param note synod.plan.Note
function plan.note(note)
  if collected and #collected < NOTES_MAX then collected[#collected + 1] = note end
end

--- Runs fn and gives what was made meanwhile, in order, each policy and name once.
---@param fn function
---@return synod.plan.Note[] notes, boolean ok, any ...  fn's results, or its error
function plan.collect(fn)
  local outer = collected
  collected = {}
  local results = table.pack(pcall(fn))
  local notes, seen = {}, {}
  for _, note in ipairs(collected) do
    local key = note.policy .. "/" .. tostring(note.name)
    if not seen[key] then notes[#notes + 1] = note end
    seen[key] = true
  end
  collected = outer
  return notes, table.unpack(results, 1, results.n)
end

--- How long one who waits for a lease lets pass between two looks, where nothing tells of changes: at most, and at
--- least; in between it is drawn.
---@param ttl number
---@return number max, number min  seconds
function plan.look_interval(ttl)
  local max = ttl / LOOKS_PER_TTL
  return max, max * JITTER
end

plan.IDLE_S = IDLE_S

---@class synod.plan.Lease
---@field kind "service"|"record"
---@field soft number       seconds after the last confirmed attempt was sent: LeaseLost is raised
---@field hard number       ... nothing guarded goes on
---@field slice number      P: how late the process may notice that
---@field drift number      rho * ttl
---@field request number    R
---@field renew number
---@field look number       between looks of who waits, at most
---@field look_mean number
---@field told "hints"|"store"|"nothing"
---@field takeover_min number  after a crash
---@field takeover_max number

--- The figures of a lease.
---@param note synod.plan.Note
---@return synod.plan.Lease
local function of_lease(note)
  local ttl = note.ttl
  local t = core.lease_timing(ttl)
  local look, shortest = plan.look_interval(ttl)
  local stale, renew, longest = note.stale or 0, note.renew or t.renew, note.look_max or look
  local late = t.record and 2 * longest or longest -- a record's last renewal is seen a look late too
  return {
    kind = t.record and "record" or "service", ttl = ttl, soft = t.soft, hard = t.hard, slice = t.slice,
    drift = t.drift, request = t.request, renew = renew, told = note.told or "hints",
    look = longest, look_mean = (look + shortest) / 2,
    -- the holder may have renewed just before it died, or been about to
    takeover_min = ttl + stale - renew, takeover_max = ttl + stale + late,
  }
end

local function per_month(seconds)
  return math.floor(MONTH_S / seconds + 0.5)
end

---@class synod.plan.Figures
---@field lease? synod.plan.Lease
---@field holder? integer    transactions a month of who holds
---@field waiter? integer    ... of who waits, without hints
---@field hinted? integer    ... with hints

--- What a policy's settings come to.
---@param note synod.plan.Note
---@return synod.plan.Figures
function plan.of(note)
  local figures = { take = TAKE_REQUESTS }
  if note.ttl then
    figures.lease = of_lease(note)
    figures.holder = per_month(figures.lease.renew) * (note.leases or 1)
  end
  if note.beat then figures.holder = (figures.holder or 0) + per_month(note.beat) end
  local look = note.look or figures.lease and figures.lease.look_mean
  if look then
    figures.waiter = per_month(look) + (note.read and per_month(note.read) or 0)
    figures.hinted = note.told and figures.waiter or per_month(math.max(look, note.idle or IDLE_S))
  end
  if note.a_month then
    figures.holder, figures.waiter = note.a_month()
    figures.hinted = figures.waiter
  end
  return figures
end

return plan
