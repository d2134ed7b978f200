-- job: one item of a partition, run here: from the lease that was taken until it is given back or handed over.
--
--   runs -> (leaving: read-only -> the target is ready) -> stopped and drained -> the target's, or free
--
-- partition.lua decides what runs where; this file runs it, and takes the way out.

local core = require "synod.core"
local seat = require "synod.seat"
local transfer = require "synod.election.transfer"

local job = {}

local REST_S = 1 -- before a function that has returned is called again

---@class synod.Share  an item that is run here, as its function sees it
---@field item string
---@field fence integer
---@field held fun(self): boolean        is it ours, by our own clock
---@field remaining fun(self): number    seconds until it is lost, unless it is renewed
---@field wait_lost fun(self, timeout?: number): synod.Error|nil
---@field put fun(self, blob: synod.Blob, body: string, options?: synod.PutOptions): synod.Props|nil, synod.Refusal
local Share = seat.class "synod.Share"

---@param owner { seat: synod.Seat, options: table, title: string }
---@param item string
---@param held synod.Held
---@return synod.Share
function job.new(owner, item, held)
  local share = setmetatable({
    owner = owner, item = item, lease = held, fence = held.fence, away = core.event(), stop = core.event(),
    still = core.event(), ended = core.event(),
  }, Share)
  share.still:set() -- nothing but the function runs under the lease
  return share
end

--- Is it being handed over? Then whoever comes next is getting ready, and what is written here should be finished.
---@return boolean
function Share:leaving()
  return self.away:is_set()
end

--- Waits until it is to be handed over.
---@param timeout? number
---@return boolean  false: not within the timeout
function Share:wait_leaving(timeout)
  return self.away:wait(timeout) ~= nil
end

local function is_stop(self, err)
  local lost = type(err) == "table" and err.code == "LeaseLost" and not self.lease:held()
  return lost or self.stop:is_set() and rawequal(err, self.stop:wait())
end

--- Tells what runs under the lease to end.
---@param why string
function Share:halt(why)
  if self.stop:is_set() then return end
  self.stop:set(core.new_error { code = "Cancelled", operation = "run", target = self.owner.title, message = why })
end

--- Runs fn(item, share) under the lease until it is stopped, and then gives the lease back, or over. A function that
--- returns is called again.
---@param fn fun(item: string, share: synod.Share)
---@return any err  what fn raised, when it was not stopped
function Share:run(fn)
  local _ <close> = setmetatable({}, { __close = function()
    self:halt "it has ended"
    self.still:wait() -- what on_leaving does is under the lease too
    if self.proposal then transfer.hand_over(self) else self.lease:release() end
    self.ended:set()
  end })
  while not self.stop:is_set() do
    local ok, err = pcall(seat.run, self.lease, self.stop, fn, self.item, self)
    if not ok then return not is_stop(self, err) and err or nil end
    self.stop:wait(REST_S)
  end
end

---------------------------------------------------------------- handing over

--- Runs on_leaving under the lease. False: the lease was lost meanwhile, or it was stopped.
local function leave(self, on_leaving)
  if self.stop:is_set() then return false end
  self.away:set(true)
  if not on_leaving then return true end
  self.still:clear()
  local _ <close> = setmetatable({}, { __close = function() self.still:set() end })
  local ok, err = pcall(seat.run, self.lease, self.stop, on_leaving, self.item, self)
  if not ok and not is_stop(self, err) then error(err, 0) end
  return ok
end

--- Hands it to another instance, which is asked first. False: it does not answer, and all is as before; or it has
--- ended otherwise meanwhile.
---@param instance string
---@param hooks { on_leaving?: function, on_kept?: function, on_left?: function }
---@param timeout number  seconds for its answer
---@return boolean
function Share:give(instance, hooks, timeout)
  if not leave(self, hooks.on_leaving) then return false end
  if not self.owner.options.timing.record then
    self.proposal = transfer.invite(self, instance, timeout)
    if not self.proposal then
      self.away:clear()
      if hooks.on_kept and not self.stop:is_set() then hooks.on_kept(self.item, self) end
      return false
    end
  end
  self:halt("it is handed over to " .. instance)
  self.ended:wait()
  if hooks.on_left then hooks.on_left(self.item) end
  return true
end

return job
