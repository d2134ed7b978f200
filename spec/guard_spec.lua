-- Guards under a virtual clock: who is stopped, when, and what is left.

local core = require "synod.core"
local guard = require "synod.lease.guard"

local S = 1000000000

local function run(fn) return core.main(fn, { clock = "virtual", seed = 1 }) end

--- A scope whose stops come so many seconds from now.
local function scope(soft, hard, options)
  options = options or {}
  local now = core.instant()
  options.soft, options.hard = now + math.floor(soft * S), now + math.floor(hard * S)
  return guard.scope(options)
end

local function closing(fn) return setmetatable({}, { __close = fn }) end

--- Waits, and tells what ended the wait and when.
local function sleep(log, seconds)
  local ok, err = pcall(core.sleep, seconds)
  log[#log + 1] = { core.now(), ok or err.code }
end

describe("guard.run", function()
  it("gives what the function returned", function()
    assert.same({ 1, nil, 3, n = 3 }, run(function()
      return table.pack(guard.run(guard.scope(), function(...) core.sleep(1) return ... end, 1, nil, 3))
    end))
  end)

  it("raises the function's error", function()
    local ok, err = pcall(run, function() guard.run(guard.scope(), function() error { code = "Mine" } end) end)
    assert.is_false(ok)
    assert.equal("Mine", err.code)
  end)

  it("is refused, with nothing begun, where Lua cannot wait for its end", function()
    local begun = false
    local function guarded()
      local ok, err = pcall(guard.run, guard.scope(), function() begun = true core.sleep(1) end)
      assert.is_false(ok)
      assert.matches("cannot wait here", tostring(err), 1, true)
      return false
    end
    run(function()
      table.sort({ 2, 1 }, guarded)
      local generator = coroutine.create(function()
        local _ <close> = closing(guarded)
        coroutine.yield()
      end)
      coroutine.resume(generator)
      assert.is_true(coroutine.close(generator))
      core.sleep(1)
    end)
    assert.is_false(begun)
  end)

  it("raises LeaseLost at the soft stop, at the wait", function()
    run(function()
      local ok, err = pcall(guard.run, scope(2, 3, { name = "flags/leader" }), core.sleep, 100)
      assert.is_false(ok)
      assert.equal("LeaseLost", err.code)
      assert.matches("flags/leader", tostring(err), 1, true)
      assert.equal(2, core.now())
    end)
  end)

  it("raises it once: clean-up may wait until the hard stop, which is raised at every wait", function()
    local log = {}
    run(function()
      local ok, err = pcall(guard.run, scope(2, 3), function()
        sleep(log, 100)
        sleep(log, 0.5)
        sleep(log, 100)
        log[#log + 1] = "went on"
      end)
      assert.same({ false, "LeaseLost" }, { ok, err.code })
      assert.equal(3, core.now())
    end)
    assert.same({ { 2, "LeaseLost" }, { 2.5, true } }, log)
  end)

  it("gives the results of a body that caught it and returned in time", function()
    run(function()
      assert.equal("cleaned up", guard.run(scope(2, 3), function()
        pcall(core.sleep, 100)
        return "cleaned up"
      end))
    end)
  end)

  it("follows the deadlines, until one has passed", function()
    run(function()
      local s = scope(2, 3)
      local keeper = core.spawn(function()
        core.sleep(1)
        s:move(5 * S, 6 * S)
        core.sleep(4.5)
        s:move(100 * S, 101 * S) -- too late
      end)
      local log = {}
      pcall(guard.run, s, function()
        sleep(log, 50)
        sleep(log, 50)
      end)
      keeper:join()
      assert.same({ { 5, "LeaseLost" } }, log)
      assert.equal(6, core.now())
    end)
  end)

  it("stops everything that was started inside, tasks of tasks too", function()
    local log = {}
    run(function()
      pcall(guard.run, scope(2, 3), function()
        core.spawn(function()
          core.spawn(function() sleep(log, 100) end)
          sleep(log, 100)
        end)
        sleep(log, 100)
      end)
    end)
    assert.same({ { 2, "LeaseLost" }, { 2, "LeaseLost" }, { 2, "LeaseLost" } }, log)
  end)

  it("leaves the others alone", function()
    run(function()
      local other = core.spawn(function() core.sleep(10) return "done" end)
      pcall(guard.run, scope(2, 3), core.sleep, 100)
      assert.equal("done", other:join())
    end)
  end)

  it("cancels and awaits what is left when the function has returned", function()
    local log = {}
    run(function()
      assert.equal("result", guard.run(guard.scope(), function()
        core.spawn(function()
          local _ <close> = closing(function() core.sleep(0.5) log[#log + 1] = core.now() end)
          sleep(log, 100)
        end)
        core.sleep(1)
        return "result"
      end))
      assert.equal(1.5, core.now())
    end)
    assert.same({ { 1, "Cancelled" }, 1.5 }, log)
  end)

  it("passes a cancel of the caller on", function()
    local log = {}
    run(function()
      local t = core.spawn(function() guard.run(guard.scope(), function() sleep(log, 100) core.sleep(0.2) end) end)
      core.sleep(1)
      t:cancel("enough")
      local _, err = t:join()
      assert.equal("enough", err.reason)
      assert.equal(1.2, core.now())
    end)
    assert.same({ { 1, "Cancelled" } }, log)
  end)

  it("does not run the function when it is lost already", function()
    run(function()
      local s = scope(1, 2)
      core.sleep(1)
      local ok, err = pcall(guard.run, s, function() error "ran" end)
      assert.same({ false, "LeaseLost" }, { ok, err.code })
    end)
  end)
end)

describe("nested guards", function()
  --- What happened to the inner and the outer body, with these deadlines.
  local function nested(outer_soft, outer_hard, inner_soft, inner_hard)
    local log = { inner = {}, outer = {} }
    run(function()
      pcall(guard.run, scope(outer_soft, outer_hard, { name = "outer" }), function()
        local ok, err = pcall(guard.run, scope(inner_soft, inner_hard, { name = "inner" }), function()
          sleep(log.inner, 100)
          sleep(log.inner, 0.25)
          sleep(log.inner, 100)
        end)
        log.raised, log.at = ok or tostring(err):match("^guard (%w+)"), core.now()
        sleep(log.outer, 0.25)
      end)
      log.over = core.now()
    end)
    return log
  end

  it("end by the inner one when it comes first", function()
    local log = nested(10, 11, 2, 3)
    assert.same({ { 2, "LeaseLost" }, { 2.25, true } }, log.inner)
    assert.same({ "inner", 3 }, { log.raised, log.at })
    assert.same({ { 3.25, true } }, log.outer)
  end)

  it("end by the outer one when it comes first, and nobody is told twice", function()
    local log = nested(2, 3, 2.1, 11)
    assert.same({ { 2, "LeaseLost" }, { 2.25, true } }, log.inner)
    assert.equal(3, log.over)
    assert.same({}, log.outer)
  end)

  it("do not tell those again whom the inner one has told", function()
    local log = nested(2.1, 3, 2, 11)
    assert.same({ { 2, "LeaseLost" }, { 2.25, true } }, log.inner)
    assert.equal(3, log.over)
  end)

  it("let nothing of the inner one outlive the outer's hard stop, not even its clean-up", function()
    local log = {}
    run(function()
      pcall(guard.run, scope(2, 3), function()
        guard.run(scope(100, 101), function()
          local _ <close> = closing(function() log[#log + 1] = core.now() end)
          core.spawn(function() while true do pcall(core.sleep, 100) end end)
          pcall(core.sleep, 100)
          core.sleep(100)
        end)
      end)
      assert.equal(3, core.now())
    end)
    assert.same({}, log)
  end)

  it("cannot begin in what has been lost", function()
    run(function()
      pcall(guard.run, scope(2, 3), function()
        pcall(core.sleep, 100)
        local ok, err = pcall(guard.run, guard.scope(), function() error "ran" end)
        assert.same({ false, "LeaseLost" }, { ok, err.code })
      end)
    end)
  end)
end)

describe("a stop", function()
  it("may come at once, with its own error, and the hard one after the grace", function()
    local log = {}
    run(function()
      local s = scope(50, 50.5)
      core.spawn(function()
        core.sleep(1)
        s:stop(core.new_error { code = "FenceRegressed", message = "it fell" })
        s:stop() -- the first counts
        s:move(90 * S, 91 * S)
      end)
      local ok, err = pcall(guard.run, s, function()
        sleep(log, 100)
        sleep(log, 100)
      end)
      assert.same({ false, "FenceRegressed" }, { ok, err.code })
      assert.matches("it fell", tostring(err), 1, true)
      assert.equal(1.5, core.now())
    end)
    assert.same({ { 1, "FenceRegressed" } }, log)
  end)

  --- Where a to-be-closed handler waits over the soft stop.
  local IN_CLOSE = {
    ["a block that ends"] = function(handler) do local _ <close> = closing(handler) end end,
    ["a function that returns"] = function(handler) local _ <close> = closing(handler) return 1 end,
    ["pcall, while an error unwinds"] = function(handler)
      pcall(function() local _ <close> = closing(handler) error "mine" end)
    end,
    ["xpcall, while an error unwinds"] = function(handler)
      xpcall(function(...) local _ <close> = closing(handler) error(...) end, tostring, "mine", 2)
    end,
    ["a coroutine"] = function(handler)
      coroutine.wrap(function() do local _ <close> = closing(handler) end end)()
    end,
    ["a function that it calls, in a coroutine of its own"] = function(handler)
      do local _ <close> = closing(function() coroutine.wrap(function() pcall(handler) end)() end) end
    end,
  }
  for where, body in pairs(IN_CLOSE) do
    it("waits for a to-be-closed handler of " .. where, function()
      local log = {}
      run(function()
        pcall(guard.run, scope(2, 10), function()
          body(function() sleep(log, 3) end)
          sleep(log, 100)
        end)
      end)
      assert.same({ { 3, true }, { 3, "LeaseLost" } }, log)
    end)

    it("does not wait for it at the hard stop: " .. where, function()
      run(function()
        pcall(guard.run, scope(2, 2.5), function() body(function() core.sleep(100) end) end)
        assert.equal(2.5, core.now())
      end)
    end)
  end

  it("waits for the handler that the body's own error runs", function()
    local log = {}
    run(function()
      local ok, err = pcall(guard.run, scope(2, 10), function()
        local _ <close> = closing(function() sleep(log, 3) end)
        error("mine", 0)
      end)
      assert.same({ false, "mine" }, { ok, err })
    end)
    assert.same({ { 3, true } }, log)
  end)

  it("is raised in what pcall protects, and in a coroutine", function()
    run(function()
      for _, body in ipairs {
        function() local ok, err = pcall(core.sleep, 100) return ok or err.code end,
        function() local ok, err = xpcall(core.sleep, function(e) return e end, 100) return ok or err.code end,
        function()
          local co = coroutine.create(function() core.sleep(100) end)
          local ok, err = coroutine.resume(co)
          return ok or err.code
        end,
      } do
        assert.equal("LeaseLost", guard.run(scope(1, 2), body))
      end
    end)
  end)

  it("that comes with the end of a wait is raised at the next one: no result is lost", function()
    run(function()
      local s = scope(50, 51)
      core.spawn(function() core.sleep(1) s:move(2 * S, 3 * S) end) -- so that the stop comes after the end of the sleep
      local log = {}
      pcall(guard.run, s, function()
        sleep(log, 2)
        sleep(log, 100)
      end)
      assert.same({ { 2, true }, { 2, "LeaseLost" } }, log)
    end)
  end)

  it("ends what is raised again and again, whatever catches it", function()
    run(function()
      local turns = 0
      local ok, err = pcall(guard.run, scope(1, 2), function()
        while true do
          turns = turns + 1
          pcall(core.sleep, 0.1)
        end
      end)
      assert.same({ false, "LeaseLost" }, { ok, err.code })
      assert.equal(2, core.now())
      assert.is_true(turns < 25)
    end)
  end)

  it("of a task that nobody joins is no failure of the run", function()
    assert.equal("fine", run(function()
      pcall(guard.run, scope(1, 2), function()
        core.spawn(function() core.sleep(100) end)
        core.sleep(100)
      end)
      collectgarbage()
      core.sleep(1)
      return "fine"
    end))
  end)
end)

describe("what is left in a guard", function()
  it("is stopped the hard way after 10 s when it does not end", function()
    run(function()
      guard.run(guard.scope(), function()
        core.spawn(function() while true do pcall(core.sleep, 100) end end)
        core.sleep(1)
      end)
      assert.is_true(core.now() >= 11 and core.now() <= 12, core.now())
    end)
  end)

  it("is told again each second", function()
    local log = {}
    run(function()
      guard.run(guard.scope(), function()
        core.spawn(function()
          sleep(log, 100)
          sleep(log, 100)
        end)
        core.sleep(1)
      end)
    end)
    assert.same({ { 1, "Cancelled" }, { 2, "Cancelled" } }, log)
  end)

  it("is not told twice of one stop of the run", function()
    local log = {}
    pcall(run, function()
      core.spawn(function()
        guard.run(guard.scope(), function()
          sleep(log, 100)
          sleep(log, 0.5)
        end)
      end)
      core.sleep(1)
      error "over" -- every task is cancelled
    end)
    assert.same({ { 1, "Cancelled" }, { 1.5, true } }, log)
  end)

  it("keeps a cancel that comes while it is awaited", function()
    run(function()
      local reached = false
      local t = core.spawn(function()
        guard.run(guard.scope(), function()
          core.spawn(function()
            local _ <close> = closing(function() core.sleep(0.5) end)
            core.sleep(100)
          end)
          core.yield()
        end)
        reached = true
      end)
      core.sleep(0.2)
      t:cancel("late")
      local _, err = t:join()
      assert.equal("late", err.reason)
      assert.is_false(reached)
      assert.equal(0.5, core.now())
    end)
  end)

  it("takes no memory when it has ended", function()
    run(function()
      local s = scope(1, 2)
      guard.run(s, function() end)
      assert.has_error(function() s:move(0, 0) end, "this guard has ended")
    end)
  end)
end)

describe("an error that is joined and raised again", function()
  it("keeps its traceback when it is an err table", function()
    local ok, err = pcall(run, function()
      local t = core.spawn(function() error(core.new_error { code = "Timeout" }) end)
      local _, why = t:join()
      error(why)
    end)
    assert.same({ false, "Timeout" }, { ok, err.code })
  end)
end)
