-- Record leases of real processes, in real time: a holder that is killed, or stopped and continued.
--
-- Both happen at once, each in a store of its own. SYNOD_KILL_ROUNDS asks for more rounds.

local sh = require "spec.support.sh"

local ROUNDS = tonumber(os.getenv "SYNOD_KILL_ROUNDS") or 1
local NS = 1000000000

--- Logs when it holds, each 10 ms in which it still does, and the end. One clock for all processes.
local HOLDER = [[
local core, lease, synod = require "synod.core", require "synod.lease", require "synod"
local id, path, seconds = ...
local file = assert(io.open(path, "a"))
local function log(what, at, fence) file:write(("%s %s %d %d\n"):format(id, what, at, fence)) file:flush() end
local blob = synod.store:container "locks":blob "mutex/p"
local held = assert(lease.contender(blob, { ttl = 2, purpose = "spec", instance = { id = id } }):take { timeout = 30 })
log("holds", core.instant(), held.fence)
local stop = core.instant() + math.tointeger(seconds) * 1000000000
while true do
  local now = core.instant()
  if now >= stop or not held:held() then break end
  log("acts", now, held.fence)
  synod.sleep(0.01)
end
log(held:held() and "ends" or "lost", core.instant(), held.fence)
held:release()
]]

local ROUND = [[
holder() { $SYNOD run --store "embedded:$DIR/$1.db" "$DIR/holder.lua" "$2" "$DIR/$1.log" "$3"; }
until_logged() { until grep -q "$2" "$DIR/$1.log" 2>/dev/null; do sleep 0.02; done; }
killed() {
  $SYNOD run --store "embedded:$DIR/killed.db" "$DIR/holder.lua" a "$DIR/killed.log" 60 & a=$!
  until_logged killed "a acts"
  holder killed b 1 & b=$!
  sleep $PAUSE
  kill -KILL $a
  wait $b
}
stopped() {
  $SYNOD run --store "embedded:$DIR/stopped.db" "$DIR/holder.lua" a "$DIR/stopped.log" 60 & a=$!
  until_logged stopped "a acts"
  holder stopped b 2 & b=$!
  sleep $PAUSE
  kill -STOP $a
  until_logged stopped "b acts"
  kill -CONT $a
  wait $a $b
}
killed 2>/dev/null & stopped & wait
]]

---@return { id: string, what: string, at: integer, fence: integer }[]
local function events_of(folder, name)
  local events = {}
  for id, what, at, fence in assert(folder:read(name .. ".log")):gmatch "(%a) (%a+) (%d+) (%d+)\n" do
    events[#events + 1] = { id = id, what = what, at = math.tointeger(at), fence = math.tointeger(fence) }
  end
  return events
end

local function last(events, id, what)
  local found
  for _, e in ipairs(events) do
    if e.id == id and e.what == what then found = e end
  end
  return found
end

local function check_no_overlap(events, output)
  local a, b = last(events, "a", "acts"), last(events, "b", "holds")
  assert.is_not_nil(b, output)
  assert.is_true(b.at > a.at, ("a acts %.3f s after b holds"):format((a.at - b.at) / NS))
  assert.is_true(b.fence > a.fence)
  return (b.at - a.at) / NS
end

describe("a record of 2 s", function()
  for round = 1, ROUNDS do
    local output, killed, stopped

    lazy_setup(function()
      local folder <close> = sh.folder()
      folder:write("holder.lua", HOLDER)
      local pause = ("%.2f"):format(0.5 + round % 7 / 10)
      output = sh.run(ROUND, { dir = folder.path, env = { PAUSE = pause }, timeout = 40 })
      killed, stopped = events_of(folder, "killed"), events_of(folder, "stopped")
    end)

    it("is another's within 3 s of a SIGKILL: round " .. round, function()
      local seconds = check_no_overlap(killed, output)
      assert.is_true(seconds <= 3, ("%.3f s"):format(seconds))
      assert.is_not_nil(last(killed, "b", "ends"), output)
    end)

    it("is not acted upon after a SIGSTOP once it is another's: round " .. round, function()
      check_no_overlap(stopped, output)
      assert.is_not_nil(last(stopped, "a", "lost"), output)
      assert.is_not_nil(last(stopped, "b", "ends"), output)
    end)
  end
end)
