-- Instances that contend for one blob, and what came of it: for specs that judge leases by true time.
--
--   local log = contenders.run(blob, { { id = "a", ttl = 2, hold = 3, rounds = 2 }, { id = "b", ttl = 15, hold = 1 } })
--   assert.same({}, contenders.faults(log))      two at once, fences that do not grow, ...
--
-- A holding lasts from when its holder was told until it begins to release: of a lost one at the hard stop, since
-- something guarded might go on up to then.

local core = require "synod.core"
local lease = require "synod.lease"
local synod = require "synod"

local contenders = {}

local TAKE_S = 120
local PAUSE_S = 0.3 -- between two rounds of one instance, so that others get a chance

---@class spec.Holding
---@field id string
---@field from number
---@field to number
---@field fence integer
---@field lost? synod.Error

--- One instance: takes, holds for `hold` seconds or until it is lost, releases; `rounds` times.
---@param blob synod.Blob
---@param who { id: string, ttl: number, hold: number, rounds?: integer, start?: number, patient?: boolean }
---  patient: one whom the store, or the machine, has let down tries again
---@param log spec.Holding[]  and `errors`
function contenders.contend(blob, who, log)
  local contender = lease.contender(blob, { ttl = who.ttl, purpose = "spec", instance = { id = who.id } })
  synod.sleep(who.start or 0)
  for _ = 1, who.rounds or 1 do
    local held, err
    repeat
      held, err = contender:take { timeout = TAKE_S }
    until held or not (who.patient and err.retryable and synod.now() < TAKE_S)
    if not held then
      log.errors[#log.errors + 1] = who.id .. ": " .. tostring(err)
      return
    end
    local holding = { id = who.id, from = synod.now(), to = math.huge, fence = held.fence }
    log[#log + 1] = holding
    holding.lost = held:wait_lost(who.hold)
    if holding.lost then synod.sleep(math.max(0, held:status().hard - synod.now())) end
    holding.to = synod.now()
    held:release()
    synod.sleep(PAUSE_S)
  end
end

---@param list table[]  see `contend`; `blob` of one: it has a way to the blob of its own
---@return spec.Holding[]
function contenders.run(blob, list)
  local log, lives = { errors = {} }, {}
  for i, who in ipairs(list) do
    lives[i] = function() contenders.contend(who.blob or blob, who, log) end
  end
  synod.all(lives)
  log.ended = core.now()
  return log
end

--- What is wrong with the holdings, as sentences.
---@param log spec.Holding[]
---@return string[]
function contenders.faults(log)
  local found = {}
  for _, err in ipairs(log.errors or {}) do found[#found + 1] = err end
  table.sort(log, function(a, b) return a.from < b.from end)
  for i = 2, #log do
    local one, next_one = log[i - 1], log[i]
    if next_one.from < one.to then
      local text = "%s holds from %.4f on, and %s until %.4f"
      found[#found + 1] = text:format(next_one.id, next_one.from, one.id, one.to)
    end
    if next_one.fence <= one.fence then
      local text = "the fence of %s is %d after %d of %s"
      found[#found + 1] = text:format(next_one.id, next_one.fence, one.fence, one.id)
    end
  end
  return found
end

return contenders
