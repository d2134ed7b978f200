-- job: one item of a partition, run here: from the lease that was taken until it is given back or handed over.
--
--   runs -> (leaving: read-only -> the target is ready) -> stopped and drained -> the target's, or free
--
-- partition.lua decides what runs where; this file runs it, and takes the way out.

local core = require "synod.core"
local seat = require "synod.seat"
local transfer = require "synod.transfer"

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
  return setmetatable({
    owner = owner, item = item, lease = held, fence = held.fence, away = core.event(), stop = core.event(),
    ended = core.event(),
  }, Share)
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

--- Runs fn(item, share) under the lease until it is stopped, and then gives the lease back, or over. A function that
--- returns is called again.
---@param fn fun(item: string, share: synod.Share)
---@return any err  what fn raised, when it was not stopped
function Share:run(fn)
  local _ <close> = setmetatable({}, { __close = function()
    if self.proposal then transfer.hand_over(self) else self.lease:release() end
    self.ended:set()
  end })
  while not self.stop:is_set() do
    local ok, err = pcall(seat.run, self.lease, self.stop, fn, self.item, self)
    if not ok then
      local lost = type(err) == "table" and err.code == "LeaseLost" and not self.lease:held()
      if lost or self.stop:is_set() and rawequal(err, self.stop:wait()) then return nil end
      return err
    end
    self.stop:wait(REST_S)
  end
end

--- Stops it, and waits until it is given back.
---@param why string
function Share:finish(why)
  self.stop:set(core.new_error { code = "Cancelled", operation = "run", target = self.owner.title, message = why })
  self.ended:wait()
end

--- Hands it to another instance, which is asked first. False: it does not answer, and all is as before.
---@param instance string
---@param hooks { on_leaving?: function, on_kept?: function, on_left?: function }
---@param timeout number  seconds for its answer
---@return boolean
function Share:give(instance, hooks, timeout)
  self.away:set(true)
  if hooks.on_leaving then hooks.on_leaving(self.item, self) end
  if not self.owner.options.timing.record then
    self.proposal = transfer.invite(self, instance, timeout)
    if not self.proposal then
      self.away:clear()
      if hooks.on_kept then hooks.on_kept(self.item, self) end
      return false
    end
  end
  self:finish("it is handed over to " .. instance)
  if hooks.on_left then hooks.on_left(self.item) end
  return true
end

return job
