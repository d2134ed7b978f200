-- The barrier between real processes, over one file.

local sh = require "spec.support.sh"

--- Prints when this process arrived and when it passed, on the clock that all processes of a machine share.
local TIMES = [[
local synod = require "synod"
local barrier = require "synod.barrier"
local me = synod.instance
synod.sleep((me.ordinal * 3 % me.count) * 0.05)
local arrived = synod.now()
local passed = assert(barrier.new { name = "startup" }:arrive_and_wait { timeout = 30 })
print(("%d %.6f %.6f %d"):format(me.ordinal, arrived, synod.now(), passed.count))
]]

--- Runs with a store of its own in the folder.
local function run(folder, command, env)
  env = env or {}
  env.SYNOD_STORE = "embedded:" .. folder.path .. "/store.db"
  return sh.run(command, { dir = folder.path, env = env, timeout = 50 })
end

local function times_of(output)
  local arrived, passed = {}, {}
  for ordinal, a, p in output:gmatch("| (%d+) ([%d.]+) ([%d.]+) %d+\n") do
    arrived[tonumber(ordinal)], passed[tonumber(ordinal)] = tonumber(a), tonumber(p)
  end
  return arrived, passed
end

local function greatest(t)
  local most
  for _, v in next, t do most = math.max(most or v, v) end
  return most
end

describe("a barrier of processes", function()
  for _, count in ipairs { 5, 20 } do
    it(("lets none of %d pass before the last has arrived, and all soon after"):format(count), function()
      local folder <close> = sh.folder()
      folder:write("times.lua", TIMES)
      local output, code = run(folder, ("$SYNOD run -n %d $DIR/times.lua"):format(count))
      assert.equal(0, code, output)
      local arrived, passed = times_of(output)
      local last = greatest(arrived)
      for ordinal = 0, count - 1 do assert.is_true(passed[ordinal] >= last, output) end
      assert.is_true(greatest(passed) - last < 3, output) -- woken, not by the next look
    end)
  end

  it("counts nothing of the run before", function()
    local folder <close> = sh.folder()
    folder:write("times.lua", TIMES)
    folder:write("alone.lua", [[
      local ready = require("synod.barrier").new { name = "startup", instance = {
        ordinal = 0, count = 3, role = "times", deployment = require("synod").instance.deployment } }
      local _, err = ready:arrive_and_wait { timeout = 0.5 }
      print(err)
    ]])
    assert.equal(0, (select(2, run(folder, "$SYNOD run -n 3 $DIR/times.lua"))))
    local output, code = run(folder, "$SYNOD run -n 1 $DIR/alone.lua")
    assert.equal(0, code, output)
    assert.matches("1 of 3 had arrived when 0.5 s had passed; missing: times_IN_1, times_IN_2", output, 1, true)
  end)

  it("lets an instance that was killed and comes back pass at once", function()
    local folder <close> = sh.folder()
    folder:write("times.lua", TIMES)
    local output, code = run(folder, [[
      $SYNOD run -n 3 --deployment d1 $DIR/times.lua &&
      $SYNOD run --deployment d1 --instance times_IN_1 --instances 3 $DIR/times.lua]])
    assert.equal(0, code, output)
    local arrived, passed = output:match("\n1 ([%d.]+) ([%d.]+) 3\n$")
    assert.is_true(tonumber(passed) - tonumber(arrived) < 3, output)
  end)

  it("is opened by the others when the last one was killed between its flag and the gate", function()
    local folder <close> = sh.folder()
    folder:write("crash.lua", [[
      local synod = require "synod"
      local me, flags = synod.instance, require "synod.barrier.flags"
      if me.ordinal == 2 then
        synod.sleep(0.3)
        local key = me.deployment .. "/crash/startup"
        assert(flags.at(synod.store:container "flags", key, 2, me.id):raise())
        os.execute("kill -9 $PPID")
      end
      local ready = require("synod.barrier").new { name = "startup", recheck = 1 }
      assert(ready:arrive_and_wait { timeout = 20 })
      print("passed")
    ]])
    local output, code = run(folder, "$SYNOD run -n 3 $DIR/crash.lua")
    assert.equal(137, code, output)
    assert.matches("crash_IN_0 | passed", output, 1, true)
    assert.matches("crash_IN_1 | passed", output, 1, true)
  end)

  it("takes a flag that was put by hand, when it is bare", function()
    local folder <close> = sh.folder()
    folder:write("bare.lua", [[
      local ready = require("synod.barrier").new { name = "startupWorkDone", bare = true, parties = 3 }
      assert(ready:arrive_and_wait { timeout = 20 })
      print("passed")
    ]])
    local output, code = run(folder, [[
      $SYNOD run -n 2 $DIR/bare.lua & fleet=$!
      sleep 0.5; $SYNOD store put flags/startupWorkDone_2 </dev/null && wait $fleet]])
    assert.equal(0, code, output)
    assert.matches("bare_IN_0 | passed", output, 1, true)
    assert.matches("bare_IN_1 | passed", output, 1, true)
  end)

  it("ends with 4 when one does not come, and names it", function()
    local folder <close> = sh.folder()
    folder:write("late.lua", [[
      local ready = require("synod.barrier").new { name = "startup" }
      if require("synod").instance.ordinal ~= 1 then assert(ready:arrive_and_wait { timeout = 0.5 }) end
    ]])
    local output, code = run(folder, "$SYNOD run -n 3 $DIR/late.lua")
    assert.equal(4, code, output)
    assert.matches("2 of 3 had arrived when 0.5 s had passed; missing: late_IN_1", output, 1, true)
  end)

  it("is refused with 2 where it cannot know who there is", function()
    local folder <close> = sh.folder()
    folder:write("who.lua", [[require("synod.barrier").new { name = "startup" }]])
    local output, code = run(folder, "$SYNOD $DIR/who.lua")
    assert.equal(2, code, output)
    assert.matches("who.lua:1: barrier.new: this instance has no ordinal: run it with -n N", output, 1, true)
    output, code = run(folder, "$SYNOD run --instance w_IN_0 --instances 3 $DIR/who.lua")
    assert.equal(2, code, output)
    assert.matches("without a deployment the flags of an earlier run would count", output, 1, true)
  end)

  it("ends with 3 when the store cannot be reached", function()
    local folder <close> = sh.folder()
    folder:write("go.lua", [[
      assert(require("synod.barrier").new { name = "startup" }:arrive())
    ]])
    local output, code = sh.run("$SYNOD run -n 1 $DIR/go.lua", { dir = folder.path, env = {
      SYNOD_STORE = "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=AAAA;BlobEndpoint=http://127.0.0.1:1/a;",
    } })
    assert.equal(3, code, output)
  end)
end)

describe("scripts/startup-barrier.lua", function()
  it("shows each instance's way to the barrier and beyond", function()
    local folder <close> = sh.folder()
    local output, code = run(folder, "$SYNOD run -n 3 scripts/startup-barrier.lua 0.3")
    assert.equal(0, code, output)
    for ordinal = 0, 2 do
      assert.matches(("startup-barrier_IN_%d | all 3 are ready"):format(ordinal), output, 1, true)
      assert.matches(("startup%%-barrier_IN_%d waited [%%w .]+: on we go"):format(ordinal), output)
    end
  end)

  it("fits what a ready-to-run policy may be: 20 to 80 lines", function()
    local lines = 0
    for _ in io.lines("scripts/startup-barrier.lua") do lines = lines + 1 end
    assert.is_true(lines >= 20 and lines <= 80, lines .. " lines")
  end)
end)
