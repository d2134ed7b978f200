-- jobs-handed-over: each job runs on one instance, and is handed over before its instance is stopped.
--
--   synod run -n 3 jobs-handed-over.lua [SECONDS]     ends after SECONDS (20); stop one (kill -TERM) and watch
--
-- Six jobs, each of which counts its steps, are shared by the instances. Half-way through, the last instance retires:
-- each of its jobs goes read-only, another instance gets ready, it stops here and starts there from the step that was
-- written last; then the instance ends. A controlled stop does the same, in 8 s. The jobs of an instance that dies are
-- run by the others when its leases are over, at once under one supervisor.
-- Exit codes: 0; 4 not everything was handed over in time; 2 without -n; 3 no store.

local synod = require "synod"
local partition = require "synod.partition"

local seconds = tonumber((...)) or 20
local me = synod.instance
if not me.count then
  io.stderr:write "jobs-handed-over: it takes several instances: synod run -n 3 jobs-handed-over.lua\n"
  os.exit(2)
end
local steps = synod.store:container "steps"
assert(steps:create())

local jobs = {}
for i = 1, 6 do jobs[i] = "job-" .. i end

--- The step that was done last.
local function last_step(job)
  local text, err = steps:blob(job):get()
  if not text and err.code ~= "BlobNotFound" then error(err, 0) end
  return text and math.tointeger(tonumber(text)) or 0
end

--- Writes nothing while it is being handed over, so that the next one begins where this one ends. A write of one that
--- has been replaced all the same is refused: it carries an older fence.
local function count_steps(job, share)
  local step = last_step(job)
  print(("%s starts at step %d"):format(job, step + 1))
  while true do
    if not share:leaving() then
      step = step + 1
      assert(share:put(steps:blob(job), tostring(step)))
    end
    synod.sleep(0.2)
  end
end

local shares = partition.new {
  name = "jobs", ttl = 15,
  on_leaving = function(job) print(("%s is read-only after step %d"):format(job, last_step(job))) end,
  on_arriving = function(job) print(job .. " is to come: we get ready") end,
  on_left = function(job) print(job .. " has stopped here") end,
}

local running = synod.spawn(shares.run, shares, jobs, count_steps)
if me.ordinal == me.count - 1 then
  running:join(seconds / 2)
  assert(shares:retire())
  assert(running:join())
  print("everything is handed over")
else
  running:join(seconds)
  print(("%d jobs run here at the end"):format(#shares:items()))
  running:cancel()
  running:join()
end
