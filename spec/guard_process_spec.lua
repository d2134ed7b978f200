-- Guards in real time: bodies that compute, calls that do not return, a process that is stopped.

local sh = require "spec.support.sh"

-- Prints what happened; the guard's deadlines are in SOFT and HARD seconds from its start.
local SCRIPT = [[
local synod = require "synod"
local core = require "synod.core"
local guard = require "synod.lease.guard"
local how, soft, hard, slice = ...
local function closing(fn) return setmetatable({}, { __close = fn }) end
local function forever() while true do end end
local function slow_match() return string.match(("a"):rep(60), ("a*"):rep(30) .. "b") end
local began = core.instant()
local function since() return (core.instant() - began) / 1e9 end
local ways = {
  compute = forever,
  catch_all = function() while true do pcall(forever) end end,
  nested = function() coroutine.wrap(function() coroutine.wrap(forever)() end)() end,
  swallow = function() while true do coroutine.resume(coroutine.create(forever)) end end,
  match = slow_match,
  match_again = function() while true do pcall(slow_match) end end,
  finaliser = function()
    setmetatable({}, { __gc = forever })
    collectgarbage()
  end,
  close = function()
    local _ <close> = closing(function()
      while since() < soft + 0.15 do end
      print("closed in peace")
    end)
    error("mine")
  end,
  close_forever = function()
    local _ <close> = closing(forever)
    error("mine")
  end,
  clean_up = function()
    local _ <close> = closing(function() synod.sleep(0.05) print("clean-up waited") end)
    forever()
  end,
  other = function() -- somebody else's task is in the way; the guarded one only waits
    synod.sleep(100)
  end,
  write = function()
    local file = assert(io.open(DIR .. "/written", "w"))
    while true do
      file:write(("%.3f\n"):format(since()))
      file:flush()
      if how == "write" then synod.sleep(0.01) else for _ = 1, 100000 do end end
    end
  end,
  exec = function()
    synod.exec { "sh", "-c", "echo $$ >" .. DIR .. "/pid; trap '' TERM; while :; do sleep 0.05; done" }
  end,
}
ways.write_busy = ways.write
soft, hard = tonumber(soft), tonumber(hard)
if how == "other" then core.spawn_apart(function() core.sleep(0.1) slow_match() end) end
io.stderr:write("ready\n")
local function at(seconds) return began + math.floor(seconds * 1e9) end
local s = guard.scope { soft = at(soft), hard = at(hard), name = "c/b", slice = tonumber(slice) }
local ok, err = pcall(guard.run, s, ways[how])
print(ok, type(err) == "table" and err.code or err, ("%.3f"):format(since()))
]]

local function uptime()
  local file <close> = assert(io.open("/proc/uptime"))
  return file:read("n")
end

describe("a guard in real time", function()
  local folder

  setup(function()
    folder = sh.folder()
    folder:write("guard.lua", ("local DIR = %q\n"):format(folder.path) .. SCRIPT)
  end)

  teardown(function() folder:close() end)

  --- The slice is long where nothing should come of it: the machine may be slow.
  local function guarded(how, soft, hard, slice)
    local command = ("$SYNOD run \"$DIR/guard.lua\" %s %g %g %g"):format(how, soft or 0.15, hard or 0.3, slice or 5)
    local output, code = sh.run(command, { dir = folder.path, timeout = 8 })
    return output:gsub("ready\n", ""), code
  end

  --- The error and the seconds that the script printed.
  local function outcome(output)
    local error, seconds = output:match("false\t(.-)\t([%d.]+)\n$")
    return error, tonumber(seconds)
  end

  for how, hard in pairs { compute = 6, nested = 6, catch_all = 0.3, swallow = 0.3 } do
    it(("stops a body that computes (%s)"):format(how), function()
      local output, code = guarded(how, 0.15, hard)
      local error, seconds = outcome(output)
      assert.equal("LeaseLost", error, output)
      assert.is_true(seconds >= (hard == 6 and 0.15 or hard) and seconds < 4, output)
      assert.equal(0, code)
    end)
  end

  it("lets clean-up wait", function()
    assert.matches("^clean%-up waited\nfalse\tLeaseLost", (guarded("clean_up", 0.15, 6)))
  end)

  it("does not interrupt a to-be-closed handler at the soft stop, even while an error unwinds", function()
    assert.matches("^closed in peace\nfalse\t.*mine", (guarded("close", 0.15, 6)))
  end)

  it("interrupts it at the hard stop", function()
    local error, seconds = outcome((guarded("close_forever")))
    assert.equal("LeaseLost", error)
    assert.is_true(seconds >= 0.3)
  end)

  for _, how in ipairs { "match", "match_again", "finaliser" } do
    it(("ends the process when a call does not return (%s)"):format(how), function()
      local began = uptime()
      local output, code = guarded(how, 0.15, 0.3, 0.1)
      assert.equal(5, code, output)
      assert.matches("^synod: the lease of c/b was lost, [^\n]+\n$", output)
      assert.is_true(uptime() - began >= 0.38)
    end)
  end

  --- Starts the script, stops it for a second some time later, gives what it printed.
  local function stopped(how)
    return sh.run(([[
      $SYNOD run "$DIR/guard.lua" %s 0.4 0.5 0.1 >"$DIR/out" 2>"$DIR/err" & p=$!
      until grep -qs ready "$DIR/err"; do sleep 0.01; done
      sleep 0.2; kill -STOP $p; sleep 0.6; wc -l <"$DIR/written" >"$DIR/before"; kill -CONT $p
      wait $p; code=$?; cat "$DIR/out"; exit $code
    ]]):format(how), { dir = folder.path, timeout = 8 })
  end

  for _, how in ipairs { "write", "write_busy" } do
    it(("does nothing guarded after a pause past the deadline (%s)"):format(how), function()
      local output = stopped(how)
      local _, lines = folder:read("written"):gsub("\n", "")
      assert.equal(tonumber(folder:read("before")), lines)
      assert.is_true(lines > 2)
      assert.matches("LeaseLost", output, 1, true)
    end)
  end

  it("ends a command that does not want to", function()
    guarded("exec")
    local pid = folder:read("pid"):match("%d+")
    local stat = io.open("/proc/" .. pid .. "/stat")
    assert.is_nil(stat and stat:read("a"):match("%) ([^Z])"))
  end)

  it("does not end the process for a call of somebody else's", function()
    local command = [[timeout -s KILL 0.8 $SYNOD run "$DIR/guard.lua" other 0.15 0.3 0.1]]
    local output, code = sh.run(command, { dir = folder.path })
    assert.equal(137, code, output) -- still at its match
  end)
end)
