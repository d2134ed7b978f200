-- majority: a lease that is held when most of several stores say so, and survives the loss of the others.
--
--   local wanted = majority.new(options, { s1, s2, s3 }, "quorum/name.lease")
--   local held <close>, err = wanted:take(timeout)
--
-- Each store has a lease of its own, kept by the core. Two majorities have a store in common, so that no two hold. The
-- fence of each store grows by one with each lease that is taken there; the highest of our majority is ours, and it is
-- written to a majority before we hold, so that whoever comes next finds it, and takes a higher one. What is held ends
-- with the need-th longest of the leases. A store that comes back is taken again in the background.

local backoff = require "synod.backoff"
local core = require "synod.core"
local fenced = require "synod.lease.fenced"
local guard = require "synod.lease.guard"
local plan = require "synod.plan"
local seat = require "synod.seat"
local task = require "synod.task"

local majority = {}

local TEND = 1 / 60        -- of the ttl: between looks at our own leases
local MEND = 1 / 3         -- of the ttl: between tries to take again what was lost
local RETRY_MIN_S = 0.05   -- after an attempt that got no majority; with jitter up to a fifth of the ttl
local RETRY_MAX = 1 / 5

---@class synod.Majority
---@field seats synod.Seat[]
---@field need integer
local Majority = {}
Majority.__index = Majority

---@class synod.MajorityLease  to be closed
---@field fence integer
local Lease = {}
Lease.__index = Lease
Lease.__name = "synod.MajorityLease"

---@param o table  options that seat.complete has completed
---@param stores synod.Store[]
---@param name string  the blob's, in each store
---@return synod.Majority
function majority.new(o, stores, name)
  local seats, longest = {}, o.ttl * RETRY_MAX
  plan.note {
    policy = "quorum", name = name:match "[^/]+$", ttl = o.ttl, renew = o.timing.renew, leases = #stores,
    look = backoff.mean(RETRY_MIN_S, longest) / #stores, look_max = longest, told = "nothing",
  }
  for i, store in ipairs(stores) do
    local own = setmetatable({ store = store }, { __index = o })
    seats[i] = seat.new(own, name)
  end
  return setmetatable({ options = o, seats = seats, need = #seats // 2 + 1, name = name }, Majority)
end

---------------------------------------------------------------- several at once

local function closing(fn)
  return setmetatable({}, { __close = fn })
end

--- Runs fn(i) for each i at once; waits until all have ended, or `enough` is true of the number of those that gave
--- something. The others are cancelled, and have ended when this returns.
---@return table<integer, any> results, table<integer, synod.Error> refusals
local function each(count, fn, enough)
  local results, refusals, found, over = {}, {}, 0, core.event()
  local left, tasks = count, {}
  local _ <close> = closing(function(_, err)
    local cancelled = task.stop(tasks)
    if cancelled ~= nil and err == nil then error(cancelled, 0) end
  end)
  for i = 1, count do
    tasks[i] = core.spawn(function()
      local result, err = fn(i)
      results[i], refusals[i] = result or nil, err
      found, left = found + (result and 1 or 0), left - 1
      if left == 0 or enough and enough(found) then over:set() end
    end)
  end
  over:wait()
  return results, refusals
end

--- Whatever comes meanwhile, none of them stays held.
---@return any cancelled  a cancel that met us, for the caller to raise
local function release_all(parts)
  local tasks = {}
  for _, part in next, parts do tasks[#tasks + 1] = core.spawn(part.release, part) end
  return task.wait(tasks)
end

local function count_of(parts)
  local count = 0
  for _, part in next, parts do
    if part:held() then count = count + 1 end
  end
  return count
end

--- Writes the fence beside a lease that has a lower one, under it.
local function raise(part, fence)
  if part.fence >= fence then return true end
  local props, err = part.blob:head()
  if not props then return nil, err end
  local metadata = props.metadata
  metadata.synod_fence = ("%d"):format(fence)
  return part.blob:set_metadata(metadata, { lease = part.id, if_match = props.etag })
end

---------------------------------------------------------------- taking

local function failure(self, code, message)
  return core.new_error {
    code = code, operation = "take", target = ("a majority of the leases '%s'"):format(self.name), message = message,
  }
end

local function words_of(refusals)
  local words = {}
  for i, err in next, refusals do words[#words + 1] = ("store %d: %s"):format(i, tostring(err)) end
  table.sort(words)
  return table.concat(words, "; ")
end

--- One attempt: a majority, with its fence written to a majority; or nothing.
---@return synod.MajorityLease|nil, synod.Error? err
local function attempt(self, timeout)
  local parts, kept = {}, false
  local _ <close> = closing(function(_, err)
    local cancelled = not kept and release_all(parts) or nil
    if cancelled ~= nil and err == nil then error(cancelled, 0) end
  end)
  local _, refusals = each(#self.seats, function(i)
    local part, err = self.seats[i]:try(timeout)
    parts[i] = part
    return part, err
  end, function(found) return found >= self.need end)
  if count_of(parts) < self.need then
    return nil, failure(self, "LeaseAlreadyPresent",
      ("%d of %d are needed; %s"):format(self.need, #self.seats, words_of(refusals)))
  end
  local fence = 0
  for _, part in next, parts do fence = math.max(fence, part.fence) end
  local written = each(#self.seats, function(i) return parts[i] and raise(parts[i], fence) end)
  local count = 0
  for _ in next, written do count = count + 1 end
  if count < self.need or count_of(parts) < self.need then
    return nil, failure(self, "Unreachable", "the fence could not be written to a majority")
  end
  kept = true
  return setmetatable({
    majority = self, parts = parts, fence = fence, need = self.need, over = core.event(), scopes = {},
  }, Lease)
end

---------------------------------------------------------------- keeping

--- The instants of the need-th longest lease; nil when fewer are held.
---@return integer|nil soft, integer|nil hard
local function stops(self)
  local ends = {}
  for _, part in next, self.parts do
    if part:held() then
      local status = part:status()
      ends[#ends + 1] = { soft = math.floor(status.soft * 1e9), hard = math.floor(status.hard * 1e9) }
    end
  end
  if #ends < self.need then return nil end
  table.sort(ends, function(a, b) return a.soft > b.soft end)
  return ends[self.need].soft, ends[self.need].hard
end

local function lose(self)
  if self.lost or self.released then return end
  self.lost = core.new_error {
    code = "LeaseLost", operation = "keep", target = ("a majority of the leases '%s'"):format(self.majority.name),
    message = ("%d of %d are left, and %d are needed"):format(count_of(self.parts), #self.majority.seats, self.need),
  }
  for scope in next, self.scopes do scope:stop(self.lost) end
  self.over:set(self.lost)
end

--- Takes again what was lost, with our fence.
local function mend(self)
  each(#self.majority.seats, function(i)
    local part = self.parts[i]
    local place = self.majority.seats[i]
    if part and part:held() or not place.options.store:is_open() then return true end
    local taken = place:try(self.majority.options.timing.try)
    if not taken then return nil end
    local _ <close> = closing(function() -- we may be cancelled while the fence is written
      if self.parts[i] ~= taken then taken:release() end
    end)
    if not (self.released or self.lost) and raise(taken, self.fence) then self.parts[i] = taken end
    return true
  end)
end

--- Moves the guards with the leases, and notices the loss.
local function tend(self)
  local ttl = self.majority.options.ttl
  while not (self.lost or self.released) do
    local soft, hard = stops(self)
    if not soft then return lose(self) end
    for scope in next, self.scopes do scope:move(soft, hard) end
    self.over:wait(ttl * TEND)
  end
end

local function begin_keeping(self)
  local ttl = self.majority.options.ttl
  self.tasks = {
    core.spawn(tend, self):detach(),
    core.spawn(function()
      while not self.over:wait(ttl * MEND) do mend(self) end
    end):detach(),
  }
  return self
end

--- Tries until it holds a majority; between attempts, which leave nothing behind, it waits with jitter.
---@param timeout? number  seconds; 0: one attempt; nothing: for ever
---@return synod.MajorityLease|nil, synod.Error? err
function Majority:take(timeout)
  local last
  local ttl = self.options.ttl
  local taken = backoff.poll(function(left)
    local held, err = attempt(self, left and math.max(left, self.options.timing.try) or self.options.timing.try)
    last = err
    return held, err
  end, { min = RETRY_MIN_S, max = ttl * RETRY_MAX, timeout = timeout })
  if taken then return begin_keeping(taken) end
  return nil, failure(self, "Timeout", ("not within %g s: %s"):format(timeout, last.message))
end

---------------------------------------------------------------- what is held

--- Is a majority ours, by our own clock?
---@return boolean
function Lease:held()
  return not self.lost and not self.released and stops(self) ~= nil
end

--- Seconds until it is lost, unless leases are renewed: those of the need-th longest.
---@return number
function Lease:remaining()
  local soft = self:held() and stops(self)
  return soft and math.max(0, (soft - core.instant()) / 1e9) or 0
end

--- Waits until it is lost.
---@param timeout? number
---@return synod.Error|nil err  LeaseLost; nil: it was released, or the time is over
function Lease:wait_lost(timeout)
  self.over:wait(timeout)
  return self.lost
end

--- Runs fn guarded by the majority: it is stopped with LeaseLost before another could hold one.
---@param fn function
---@param ... any
---@return ...  fn's results; its error is raised
function Lease:guard(fn, ...)
  local soft, hard = stops(self)
  if not soft then lose(self) end
  if self.lost then error(self.lost, 0) end
  local scope = guard.scope {
    soft = soft, hard = hard, slice = self.majority.options.timing.slice, name = self.majority.name,
  }
  self.scopes[scope] = true
  local _ <close> = closing(function() self.scopes[scope] = nil end)
  return guard.run(scope, fn, ...)
end

for _, call in ipairs { "put", "set_metadata", "merge" } do
  Lease[call] = function(self, ...) return fenced[call](self, ...) end
end

--- Gives all leases back. Nothing is held from the beginning of the call on.
---@return true|nil, synod.Error? err  LeaseLost: it had been lost before
function Lease:release()
  if not self.released then
    self.released = true
    self.over:set(true)
    local cancelled = task.stop(self.tasks)
    cancelled = release_all(self.parts) or cancelled
    if cancelled ~= nil then error(cancelled, 0) end
  end
  if self.lost then return nil, self.lost end
  return true
end

Lease.__close = Lease.release

return majority
