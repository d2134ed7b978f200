-- Commands under a guard: they have the guard's deadlines, by their leash, on a real clock.

local core = require "synod.core"
local guard = require "synod.lease.guard"
local sh = require "spec.support.sh"
local synod = require "synod"

local S = 1000000000

local function scope(soft, hard)
  local now = core.instant()
  return guard.scope { soft = now + math.floor(soft * S), hard = now + math.floor(hard * S) }
end

--- Runs fn(folder) in a run of its own.
local function run(fn)
  local folder <close> = sh.folder()
  return core.main(fn, {}, folder)
end

local function fails(...)
  local ok, err = pcall(...)
  assert.is_false(ok)
  return err.code
end

describe("a command under a guard", function()
  it("gets TERM at the soft stop, and is waited for", function()
    run(function(folder)
      local script = "trap 'sleep 0.1; echo term >%s/log; exit 0' TERM; while :; do sleep 0.01; done"
      script = script:format(folder.path)
      local began = core.now()
      assert.equal("LeaseLost", fails(guard.run, scope(1, 5), synod.exec, { "sh", "-c", script }))
      assert.equal("term\n", folder:read "log")
      assert.is_true(core.now() - began < 4.5)
    end)
  end)

  it("is gone at the hard stop, with all it has started", function()
    run(function(folder)
      local script = "trap '' TERM; setsid -f sh -c 'while :; do echo 1 >>$0; sleep 0.01; done' %s/log; sleep 300"
      assert.equal("LeaseLost", fails(guard.run, scope(1.5, 1.7), synod.exec,
        { "sh", "-c", script:format(folder.path) }))
      local written = #folder:read "log"
      core.sleep(0.1)
      assert.equal(written, #folder:read "log")
    end)
  end)

  it("goes on while the guard's deadlines move", function()
    run(function()
      local s = scope(1.5, 2)
      core.spawn(function()
        for _ = 1, 6 do
          core.sleep(0.4)
          s:move(core.instant() + S * 15 // 10, core.instant() + S * 2)
        end
      end):detach()
      assert.equal(3, guard.run(s, synod.exec, { "sh", "-c", "sleep 2.2; exit 3" }).code)
    end)
  end)

  it("gets TERM at once when the guard's lease is lost", function()
    run(function(folder)
      local s = scope(60, 70)
      core.spawn(function()
        repeat core.sleep(0.01) until folder:read "log"
        s:stop()
      end):detach()
      local began = core.now()
      local script = "trap 'echo term >>%s/log; exit' TERM; echo ready >>%s/log; while :; do sleep 0.01; done"
      assert.equal("LeaseLost", fails(guard.run, s, synod.exec,
        { "sh", "-c", script:format(folder.path, folder.path) }))
      assert.is_true(core.now() - began < 30)
      assert.equal("ready\nterm\n", folder:read "log")
    end)
  end)

  it("may be part of the clean-up, until the hard stop", function()
    run(function()
      local code
      assert.is_true(pcall(guard.run, scope(0.1, 5), function()
        pcall(core.sleep, 10)
        code = assert(synod.exec { "sh", "-c", "sleep 0.1; exit 7" }).code
      end))
      assert.equal(7, code)
      assert.equal("LeaseLost", fails(guard.run, scope(0.1, 0.4), function()
        pcall(core.sleep, 10)
        synod.exec { "sleep", "10" }
      end))
    end)
  end)

  it("is killed by a cancel of the guard, at once", function()
    run(function()
      local began = core.now()
      local task = core.spawn(guard.run, scope(60, 70), synod.exec, { "sh", "-c", "trap '' TERM; sleep 300" })
      core.sleep(0.1)
      task:cancel()
      task:join()
      assert.is_true(core.now() - began < 30)
    end)
  end)
end)
