-- Guards under a virtual clock: who is stopped, when, and what is left.

local core = require "synod.core"
local guard = require "synod.guard"

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
