-- Schedules between real processes, over one file, some of which are killed.

local sh = require "spec.support.sh"

--- Appends each slot that it runs to a file.
local SCRIPT = [[
local cron = require "synod.cron"
local out = assert(io.open((...), "a"))
local jobs = cron.new { ttl = 1 }
jobs:every(1, "tick", function(slot)
  out:write(("%d\n"):format(slot.at // 1))
  out:flush()
end)
assert(jobs:run())
]]

describe("schedules of processes", function()
  it("have every slot run though runners are killed, and end without an error", function()
    local folder <close> = sh.folder()
    folder:write("tick.lua", SCRIPT)
    local output, code = sh.run([[
      $SYNOD $DIR/tick.lua $DIR/out & a=$!
      $SYNOD $DIR/tick.lua $DIR/out & b=$!
      $SYNOD $DIR/tick.lua $DIR/out & c=$!
      sleep 1.9; kill -9 $a; sleep 1; kill -9 $b; sleep 2
      kill $c; wait $c
    ]], { dir = folder.path, timeout = 30, env = { SYNOD_STORE = "embedded:" .. folder.path .. "/store.db" } })
    assert.equal(0, code, output)
    local first, last, times, again = nil, nil, {}, 0
    for line in folder:read("out"):gmatch("%d+") do
      local at = math.tointeger(tonumber(line))
      first, last = math.min(first or at, at), math.max(last or at, at)
      if times[at] then again = again + 1 end
      times[at] = true
    end
    assert.is_true(last - first >= 2, "slots " .. first .. " to " .. last)
    for at = first, last do assert.is_true(times[at], at .. " is missing from " .. first .. " to " .. last) end
    assert.is_true(again <= 2, again .. " were run again: only those of the killed may be")
  end)
end)
