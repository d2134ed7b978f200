-- singleton-scheduler: one instance hands out work at its times; when it is scaled away, the scheduler moves at once.
--
--   synod run -n 3 singleton-scheduler.lua [SECONDS]      stop one (kill -TERM) and watch; ends after SECONDS (10)
--
-- The scheduler lives wherever it is elected. When its instance is told to stop, its body is stopped and drained, and
-- only then does it resign: the next one begins without waiting for a lease to end, with what the last one has written
-- as done. Under SIGKILL the supervisor does the same; on a fleet the lease runs out. Exit codes: 0; 3 no store.

local synod = require "synod"
local election = require "synod.election"

local seconds = tonumber((...)) or 10
local me = synod.instance
local state = synod.store:container "scheduler":blob "done"
assert(synod.store:container "scheduler":create())

local seat = election.new { name = "scheduler", ttl = 15 }

--- The number of the last round that is done.
local function last_round()
  local text, err = state:get()
  if not text and err.code ~= "BlobNotFound" then error(err, 0) end
  return text and math.tointeger(tonumber(text)) or 0
end

--- Only ever in one place: a later scheduler's write makes this one's fail.
local function schedule(term)
  local round = last_round()
  print(("scheduling from round %d on"):format(round + 1))
  while true do
    round = round + 1
    assert(term:put(state, tostring(round)))
    print(("round %d, handed out by %s"):format(round, me.id))
    synod.sleep(0.5)
  end
end

local leading = synod.spawn(seat.lead, seat, schedule)
synod.on("stopping", function()
  local was = seat:is_leader()
  leading:cancel("this instance is scaled away")
  leading:join(8)
  if was then print("the scheduler moves on") end
end)
synod.sleep(seconds)
leading:cancel()
leading:join()
