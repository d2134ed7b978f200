-- leader: all instances work, and one of them leads.
--
--   synod run -n 3 leader.lua [SECONDS]           for so long (10); kill one and see who leads next
--   synod run --store azure leader.lua            on each machine of a fleet
--
-- The leader writes the plan, one line for each second, under its fence; everybody reads it and works. The body of the
-- leader is stopped before anybody else could lead: two plans are never written at once. An instance whose health check
-- fails steps down. Exit codes: 0, 3 no store.

local synod = require "synod"
local election = require "synod.election"

local seconds = tonumber((...)) or 10
local me = synod.instance
local plan = synod.store:container "plans":blob "today"
assert(synod.store:container "plans":create())

local function healthy()
  local folder <close> = io.open("/tmp", "r") -- put your own check here
  return folder ~= nil
end

local boss = election.new { name = "planner", healthy = healthy }

--- What only the leader does.
local function lead(term)
  print(("I lead, with the fence %d"):format(term.fence))
  for number = 1, math.huge do
    local _, err = term:put(plan, ("plan %d of %s"):format(number, me.id))
    if err then print("not written: " .. tostring(err)) end
    synod.sleep(1)
  end
end

--- What everybody does.
local function work()
  local seen
  for _ = 1, seconds do
    local text = plan:get()
    if text and text ~= seen then print("I work by " .. text) end
    seen = text or seen
    synod.sleep(1)
  end
end

local leading = synod.spawn(boss.lead, boss, lead)
boss:observe(function(leader) print(leader and leader.id .. " leads" or "nobody leads") end):detach()
work()
leading:cancel() -- it resigns on its way out
leading:join()
