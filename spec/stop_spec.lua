-- Signals, and scripts that compute: the real program, real signals.

local core = require "synod.core"
local sh = require "spec.support.sh"

local SCRIPT = [[
local synod = require "synod"
local how = ...
local function closing(fn) return setmetatable({}, { __close = fn }) end
local ways = {
  compute = function() while true do end end,
  catch = function()
    while true do
      pcall(function() while true do end end)
      if os.time() % 1 == 0 then print("caught") end
    end
  end,
  nested = function()
    coroutine.wrap(function() coroutine.wrap(function() while true do end end)() end)()
  end,
  wait = function() synod.sleep(100) end,
  event = function() synod.event():wait() end,
  close = function()
    local _ <close> = closing(function() synod.sleep(0.1) print("closed") end)
    synod.sleep(100)
  end,
  compute_in_close = function()
    local _ <close> = closing(function()
      local until_then = os.clock() + 0.3
      while os.clock() < until_then do end
      print("closed in peace")
    end)
    while true do end
  end,
  handler = function()
    synod.on("stopping", function() synod.sleep(0.1) print("handled") end)
    synod.sleep(100)
  end,
  own = function()
    local stop = synod.event()
    synod.on("stopping", function() stop:set() end)
    stop:wait()
  end,
  failing = function()
    synod.on("stopping", function() error("bad handler") end)
    synod.sleep(100)
  end,
  deaf = function() string.match(("a"):rep(60), ("a*"):rep(30) .. "b") end,
}
io.stderr:write("ready\n")
ways[how]()
]]

describe("a signal", function()
  local folder

  setup(function()
    folder = sh.folder()
    folder:write("stop.lua", SCRIPT)
  end)

  teardown(function() folder:close() end)

  --- Starts the script, sends the signals a moment after it is ready, gives the output and the exit code.
  local function stop(how, signals, timeout)
    return sh.run(([[
      : >"$DIR/err"
      $SYNOD run "$DIR/stop.lua" %s >"$DIR/out" 2>"$DIR/err" & p=$!
      until grep -qs ready "$DIR/err"; do sleep 0.01; done
      for s in %s; do sleep 0.05; kill -$s $p; done
      wait $p; code=$?; cat "$DIR/out"; grep -v ready "$DIR/err"; exit $code
    ]]):format(how, signals), { dir = folder.path, timeout = timeout or 8 })
  end

  for _, how in ipairs { "compute", "nested", "wait", "event" } do
    it("ends a script at once (" .. how .. ")", function()
      local output, code = stop(how, "TERM")
      assert.equal("", output)
      assert.equal(143, code)
      output, code = stop(how, "INT")
      assert.equal("", output)
      assert.equal(130, code)
    end)
  end

  it("runs to-be-closed variables, which may wait", function()
    assert.same({ "closed\n", 143 }, { stop("close", "TERM") })
  end)

  it("does not interrupt a to-be-closed handler that computes", function()
    assert.same({ "closed in peace\n", 143 }, { stop("compute_in_close", "TERM") })
  end)

  it("runs the handlers first", function()
    assert.same({ "handled\n", 143 }, { stop("handler", "TERM") })
  end)

  it("is no failure for a script that ends by itself when told", function()
    assert.same({ "", 0 }, { stop("own", "TERM") })
  end)

  it("shows the error of a handler", function()
    local output, code = stop("failing", "TERM")
    assert.matches("bad handler", output, 1, true)
    assert.equal(1, code)
  end)

  it("of the second SIGINT kills, even inside a call into C", function()
    assert.same({ "", 130 }, { stop("deaf", "INT INT") })
  end)

  it("ends a script that catches every cancel after 30 s", function()
    local output, code = stop("catch", "TERM", 40)
    assert.equal(143, code)
    local _, times = output:gsub("caught", "")
    assert.is_true(times >= 25 and times <= 31, "caught " .. times .. " times")
  end)
end)

describe("a script that computes", function()
  it("does not keep the world from going on", function()
    core.main(function()
      local synod = require "synod"
      local sleeper = synod.spawn(function() return (pcall(synod.sleep, 0.02)) end)
      synod.yield()
      local from = os.clock()
      while os.clock() - from < 0.1 do end
      sleeper:cancel() -- too late for a sleep that ended meanwhile
      assert.is_true(sleeper:join())
    end)
  end)

  it("nor when it computes while a coroutine of its own is being closed", function()
    core.main(function()
      local synod = require "synod"
      local sleeper = synod.spawn(function() return (pcall(synod.sleep, 0.02)) end)
      synod.yield()
      local co = coroutine.create(function()
        local _ <close> = setmetatable({}, { __close = function()
          local from = os.clock()
          while os.clock() - from < 0.1 do end
        end })
        coroutine.yield()
      end)
      coroutine.resume(co)
      assert.is_true(coroutine.close(co))
      sleeper:cancel()
      assert.is_true(sleeper:join())
    end)
  end)

  it("gets its own debug hook back", function()
    local counted, hook = 0, nil
    core.main(function()
      local co = coroutine.running()
      hook = function() counted = counted + 1 end
      debug.sethook(co, hook, "", 100000)
      local from = os.clock()
      while os.clock() - from < 0.1 do end
      assert.equal(hook, (debug.gethook(co)))
      debug.sethook(co)
    end)
    assert.is_true(counted > 1)
  end)
end)
