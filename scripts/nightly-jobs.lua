-- nightly-jobs: a schedule that several instances share; each slot runs once, on whichever of them is there.
--
--   synod run --store azure nightly-jobs.lua                 on each machine of a fleet, until it is stopped
--   synod run -n 3 nightly-jobs.lua [SECONDS] [EVERY]        for so long; with EVERY each job is due so often instead
--
-- A job that fails is logged and kept as failed; one whose instance dies is run again by another. What a slot has given
-- can be asked for at any time. Exit codes: 0; 3 no store.

local synod = require "synod"
local cron = require "synod.cron"

local seconds, every = tonumber((...)), tonumber((select(2, ...)))
local me = synod.instance
assert(synod.store:container "cron":create { timeout = 60 }) -- run() would wait for a store that is not there

local jobs = cron.new { zone = "Europe/Berlin", once = "at-least", catch_up = "last", ttl = 15 }

--- Each job: when it is due, and what it does with its slot.
local SCHEDULE = {
  report = { "30 2 * * mon-fri", function(slot)
    print("the report of " .. slot.id)
    synod.sleep(0.1)
    return { rows = 42, by = me.id }
  end },
  ["clean-up"] = { "*/15 * * * *", function(slot)
    print("cleaning up, " .. slot.id)
    return true
  end },
  charge = { "0 4 1 * *", function(slot) -- money: better not at all than twice
    print("charging, with the fence " .. slot.fence)
    return { charged = 3 }
  end, { once = "at-most" } },
}

for name, job in pairs(SCHEDULE) do
  local when, fn, given = table.unpack(job)
  jobs:every(every or when, name, fn, given)
end

if seconds then
  synod.spawn(function()
    synod.sleep(seconds)
    jobs:drain { timeout = 5 }
  end)
end
assert(jobs:run())

if every then
  local slot = math.floor(synod.time() / every) * every - every
  local result = assert(jobs:result("report", slot))
  print(("the last report but one is %s%s"):format(result.state, result.by and ", by " .. result.by or ""))
end
