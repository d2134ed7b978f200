-- Every row of "tasks and time" on the virtual clock, where instants are compared with ==.

local core = require "synod.core"
local synod = require "synod"

--- Runs fn on the virtual clock and returns its results.
local function run(fn, ...)
  return core.main(fn, { clock = "virtual", seed = 1 }, ...)
end

--- A to-be-closed value that calls fn.
local function closing(fn)
  return setmetatable({}, { __close = fn })
end

describe("a run", function()
  it("returns the results of its main function", function()
    assert.same({ 1, nil, 3, n = 3 }, table.pack(run(function(...) return ... end, 1, nil, 3)))
  end)

  it("raises the error of its main function, whatever it is", function()
    local problem = { "a table" }
    local ok, err = pcall(run, function() error(problem) end)
    assert.is_false(ok)
    assert.equal(problem, err)
  end)

  it("leaves no error behind for the next one, when several of its tasks have failed", function()
    local ok = pcall(run, function()
      for i = 1, 3 do synod.spawn(function() error("problem " .. i, 0) end) end
      error("main's", 0)
    end)
    assert.is_false(ok)
    assert.equal("fine", run(function()
      collectgarbage()
      synod.sleep(1)
      return "fine"
    end))
  end)

  it("ends when the last task that is not detached has ended", function()
    local ended_at
    run(function()
      synod.spawn(function()
        synod.sleep(5)
        ended_at = synod.now()
      end)
    end)
    assert.equal(5, ended_at)
  end)

  it("does not wait for a detached task, but lets it clean up", function()
    local closed_at
    run(function()
      synod.spawn(function()
        local _ <close> = closing(function()
          synod.sleep(0.5)
          closed_at = synod.now()
        end)
        synod.sleep(1000)
      end):detach()
      synod.sleep(2)
    end)
    assert.equal(2.5, closed_at)
  end)

  it("says so when nothing can ever happen any more", function()
    local ok, err = pcall(run, function() synod.event():wait() end)
    assert.is_false(ok)
    assert.equal("Stuck", err.code)
  end)

  it("refuses calls outside of it", function()
    local ok, err = pcall(synod.sleep, 1)
    assert.is_false(ok)
    assert.matches("synod.sleep works only while synod runs the script", err, 1, true)
  end)

  it("cannot be entered twice", function()
    local ok, err = pcall(run, function() run(function() end) end)
    assert.is_false(ok)
    assert.matches("running already", err, 1, true)
  end)
end)

describe("spawn and join", function()
  it("hand over arguments and results", function()
    assert.same({ 3, nil, "x", n = 3 }, run(function()
      local t = synod.spawn(function(a, b) return a + b, nil, "x" end, 1, 2)
      return table.pack(t:join())
    end))
  end)

  it("give every joiner the results, also long after the end", function()
    run(function()
      local t = synod.spawn(function()
        synod.sleep(1)
        return "done"
      end)
      local seen = {}
      for i = 1, 3 do
        synod.spawn(function() seen[i] = t:join() end)
      end
      synod.sleep(10)
      assert.same({ "done", "done", "done" }, seen)
      assert.equal("done", t:join())
      assert.is_true(t:ended())
      assert.is_false(t:failed())
    end)
  end)

  it("give an error back as err, an error without a value too", function()
    run(function()
      local t = synod.spawn(function() error({ code = "Mine" }) end)
      local result, err = t:join()
      assert.is_nil(result)
      assert.equal("Mine", err.code)
      result, err = synod.spawn(function() error() end):join()
      assert.is_nil(result)
      assert.is_string(err)
    end)
  end)

  it("stop waiting when the time is over, and can be asked again", function()
    run(function()
      local t = synod.spawn(function()
        synod.sleep(3)
        return "late"
      end)
      local result, err = t:join(1)
      assert.is_nil(result)
      assert.equal("Timeout", err.code)
      assert.equal(1, synod.now())
      assert.equal("late", t:join())
      assert.equal(3, synod.now())
    end)
  end)

  it("refuse a task that would wait for itself", function()
    run(function()
      local t
      t = synod.spawn(function() return pcall(t.join, t) end)
      local ok, err = t:join()
      assert.is_false(ok)
      assert.matches("its own end", err, 1, true)
    end)
  end)

  it("take turns in the order they became ready", function()
    run(function()
      local order = {}
      for i = 1, 3 do
        synod.spawn(function()
          for turn = 1, 2 do
            order[#order + 1] = i .. "." .. turn
            synod.yield()
          end
        end)
      end
      synod.sleep(1)
      assert.same({ "1.1", "2.1", "3.1", "1.2", "2.2", "3.2" }, order)
    end)
  end)
end)

describe("an error that nobody joins", function()
  it("ends the run, though the main function goes on", function()
    local ok, err = pcall(run, function()
      synod.spawn(function() error("lost", 0) end)
      synod.sleep(1000)
    end)
    assert.is_false(ok)
    assert.equal("lost", err)
  end)

  it("ends the run at its end while somebody could still have joined", function()
    local reached
    local ok, err = pcall(run, function()
      local t = synod.spawn(function() error("held", 0) end)
      synod.sleep(5)
      reached = synod.now()
      return t
    end)
    assert.is_false(ok)
    assert.equal("held", err)
    assert.equal(5, reached)
  end)

  it("comes after the main function's own where that was first", function()
    local ok, err = pcall(run, function()
      local list = {}
      local _ <close> = closing(function() list.closed = true end)
      list[1] = synod.spawn(function()
        while not list.closed do synod.sleep(0.1) end
        error("of the other's making", 0)
      end)
      synod.sleep(1)
      local _ <close> = closing(function() pcall(synod.sleep, 1) end)
      error("the cause", 0)
    end)
    assert.same({ false, "the cause" }, { ok, err })
  end)

  it("is no failure of the run once it was joined, late as that may be", function()
    run(function()
      local t = synod.spawn(function() error("joined", 0) end)
      synod.sleep(5)
      local _, err = t:join()
      assert.equal("joined", err)
    end)
  end)

  it("is no failure when the task was cancelled", function()
    run(function()
      synod.spawn(function() synod.sleep(1000) end):cancel()
      synod.sleep(1)
    end)
  end)

  it("lets the other tasks clean up before the run ends", function()
    local cleaned_at
    pcall(run, function()
      synod.spawn(function()
        local _ <close> = closing(function()
          synod.sleep(0.5)
          cleaned_at = synod.now()
        end)
        synod.sleep(1000)
      end)
      synod.sleep(2)
      error("over")
    end)
    assert.equal(2.5, cleaned_at)
  end)
end)

describe("cancel", function()
  it("raises a Cancelled error at the current wait, once for each call", function()
    run(function()
      local seen = {}
      local t = synod.spawn(function()
        for i = 1, 2 do
          local ok, err = pcall(synod.sleep, 100)
          seen[i] = ok or err.code .. "/" .. err.message .. "@" .. synod.now()
        end
        synod.sleep(1)
        return "went on"
      end)
      synod.sleep(1)
      t:cancel("first")
      synod.sleep(1)
      t:cancel("second")
      assert.equal("went on", t:join())
      assert.same({ "Cancelled/first@1.0", "Cancelled/second@2.0" }, seen)
    end)
  end)

  it("waits for the next wait of a task that is not waiting", function()
    run(function()
      local t = synod.spawn(function()
        local before = true
        local ok, err = pcall(synod.sleep, 1)
        return before, ok, err.code
      end)
      t:cancel()
      assert.same({ true, false, "Cancelled" }, { t:join() })
    end)
  end)

  it("keeps the reasons apart when they come together", function()
    run(function()
      local t = synod.spawn(function()
        local _, first = pcall(synod.sleep, 1)
        local _, second = pcall(synod.sleep, 1)
        return first.reason, second.reason
      end)
      t:cancel(1)
      t:cancel(2)
      assert.same({ 1, 2 }, { t:join() })
    end)
  end)

  it("does not take a result away that is there already", function()
    run(function()
      local e = synod.event()
      local t = synod.spawn(function()
        local value = e:wait()
        local ok = pcall(synod.sleep, 1)
        return value, ok
      end)
      synod.yield()
      e:set("mine")
      t:cancel()
      assert.same({ "mine", false }, { t:join() })
    end)
  end)

  it("runs to-be-closed variables, which may wait and be cancelled themselves", function()
    run(function()
      local log = {}
      local t = synod.spawn(function()
        local _ <close> = closing(function(_, err)
          log[#log + 1] = err.code
          local ok = pcall(synod.sleep, 50)
          log[#log + 1] = tostring(ok) .. "@" .. synod.now()
          synod.sleep(2)
          log[#log + 1] = "closed@" .. synod.now()
        end)
        synod.sleep(100)
      end)
      synod.sleep(1)
      t:cancel()
      synod.sleep(3)
      t:cancel()
      local _, err = t:join()
      assert.equal("Cancelled", err.code)
      assert.same({ "Cancelled", "false@4.0", "closed@6.0" }, log)
    end)
  end)

  it("has no effect on a task that has ended", function()
    run(function()
      local t = synod.spawn(function() return 1 end)
      synod.sleep(1)
      t:cancel()
      assert.equal(1, t:join())
    end)
  end)

  it("passes an err table on as it is", function()
    run(function()
      local lost = core.new_error { code = "LeaseLost" }
      local t = synod.spawn(function() synod.sleep(10) end)
      synod.yield()
      t:cancel(lost)
      local _, err = t:join()
      assert.equal(lost, err)
    end)
  end)
end)

describe("an error in a to-be-closed handler", function()
  it("takes the place of the first and reaches the joiner", function()
    run(function()
      local t = synod.spawn(function()
        local _ <close> = closing(function() error("while closing", 0) end)
        error("first", 0)
      end)
      local _, err = t:join()
      assert.equal("while closing", err)
    end)
  end)
end)

describe("sleep", function()
  it("takes exactly as long as it says, in the order of the ends", function()
    run(function()
      local order = {}
      for _, s in ipairs { 3, 1, 2.5, 0, 1 } do
        synod.spawn(function()
          synod.sleep(s)
          order[#order + 1] = s .. "@" .. synod.now()
        end)
      end
      synod.sleep(10)
      assert.same({ "0@0.0", "1@1.0", "1@1.0", "2.5@2.5", "3@3.0" }, order)
    end)
  end)

  it("refuses what is no time", function()
    run(function()
      for _, bad in ipairs { -1, 0 / 0, "soon", {} } do
        assert.is_false(pcall(synod.sleep, bad))
      end
      assert.equal(0, synod.now())
    end)
  end)

  it("agrees with the wall clock", function()
    run(function()
      synod.sleep(90.25)
      assert.equal(1704067200 + 90.25, synod.time())
    end)
  end)
end)

describe("timeout", function()
  it("starts nothing when it is used wrongly", function()
    run(function()
      local function never() error("was started") end
      for _, seconds in ipairs { -1, 0 / 0, "1" } do
        local ok, err = pcall(synod.timeout, seconds, never)
        assert.is_false(ok)
        assert.matches("synod.timeout: a number of seconds from 0 on expected", err, 1, true)
      end
      local ok, err = pcall(synod.timeout, 1)
      assert.is_false(ok)
      assert.matches("synod.timeout: a function expected, got nil", err, 1, true)
      synod.sleep(1)
    end)
  end)

  it("gives the results of what is done in time", function()
    run(function()
      assert.same({ 1, nil, 2, n = 3 }, table.pack(synod.timeout(1, function(...) return ... end, 1, nil, 2)))
    end)
  end)

  it("cancels what is not, and returns when it has ended", function()
    run(function()
      local closed_at
      local result, err = synod.timeout(1, function()
        local _ <close> = closing(function()
          synod.sleep(0.25)
          closed_at = synod.now()
        end)
        synod.sleep(10)
      end)
      assert.is_nil(result)
      assert.equal("Timeout", err.code)
      assert.equal(1.25, closed_at)
      assert.equal(1.25, synod.now())
    end)
  end)

  it("cancels again each second what catches the cancel", function()
    run(function()
      local caught = 0
      synod.timeout(1, function()
        while caught < 3 do
          if not pcall(synod.sleep, 100) then caught = caught + 1 end
        end
      end)
      assert.equal(3, caught)
      assert.equal(3, synod.now())
    end)
  end)

  it("raises an error of the function as it is", function()
    run(function()
      local ok, err = pcall(synod.timeout, 1, function() error("inside", 0) end)
      assert.is_false(ok)
      assert.equal("inside", err)
    end)
  end)

  it("passes a cancel of its caller on, and ends after the function has", function()
    run(function()
      local log = {}
      local t = synod.spawn(function()
        synod.timeout(100, function()
          local _ <close> = closing(function(_, err)
            synod.sleep(0.5)
            log[#log + 1] = err.code .. "@" .. synod.now()
          end)
          synod.sleep(50)
        end)
      end)
      synod.sleep(1)
      t:cancel()
      local _, err = t:join()
      assert.equal("Cancelled", err.code)
      assert.same({ "Cancelled@1.5" }, log)
      assert.equal(1.5, synod.now())
    end)
  end)
end)

describe("all", function()
  it("gives the first result of each, in order", function()
    run(function()
      local results = synod.all {
        function() synod.sleep(2) return "slow" end,
        function() return nil end,
        function() return "fast", "dropped" end,
      }
      assert.same({ "slow", nil, "fast", n = 3 }, results)
      assert.equal(2, synod.now())
      assert.same({ n = 0 }, synod.all {})
    end)
  end)

  it("cancels the rest at the first error, and raises it when they have ended", function()
    run(function()
      local ended = {}
      local function worker(i)
        return function()
          local _ <close> = closing(function() ended[#ended + 1] = i end)
          synod.sleep(100)
        end
      end
      local ok, err = pcall(synod.all, { worker(1), function() synod.sleep(1) error("bad", 0) end, worker(3) })
      assert.is_false(ok)
      assert.equal("bad", err)
      assert.same({ 1, 3 }, ended)
      assert.equal(1, synod.now())
    end)
  end)

  it("tells of the first error alone, also when several fail at one instant", function()
    assert.equal("went on", run(function()
      local function bad(what) return function() error(what, 0) end end
      assert.same({ false, "a" }, { pcall(synod.all, { bad "a", bad "b" }) })
      assert.same({ false, "a" }, { pcall(synod.race, { bad "a", bad "b" }) })
      assert.equal(1, synod.race { function() return 1 end, bad "b" })
      synod.sleep(1)
      return "went on"
    end))
  end)
end)

describe("race", function()
  it("gives the results of the first and ends the others", function()
    run(function()
      local ended
      assert.same({ "won", 2 }, { synod.race {
        function()
          local _ <close> = closing(function() ended = true end)
          synod.sleep(10)
        end,
        function() synod.sleep(1) return "won", 2 end,
      } })
      assert.is_true(ended)
      assert.equal(1, synod.now())
    end)
  end)

  it("raises the error of the first", function()
    run(function()
      local ok, err = pcall(synod.race, {
        function() synod.sleep(2) end,
        function() synod.sleep(1) error("first", 0) end,
      })
      assert.is_false(ok)
      assert.equal("first", err)
    end)
  end)
end)

describe("every", function()
  it("does not drift, and leaves out what comes while it is busy", function()
    run(function()
      local at = {}
      local t = synod.every(0.1, function()
        at[#at + 1] = synod.now()
        if #at == 2 then synod.sleep(0.25) end
      end)
      synod.sleep(1)
      t:cancel()
      t:join()
      assert.same({ 0.1, 0.2, 0.5, 0.6, 0.7, 0.8, 0.9 }, { table.unpack(at, 1, 7) })
    end)
  end)

  it("counts in whole nanoseconds: no error adds up", function()
    run(function()
      local t = synod.every(0.1, function() end)
      synod.sleep(86400)
      t:cancel()
      local turns, last = 0, nil
      local u = synod.every(0.1, function() turns, last = turns + 1, synod.now() end)
      synod.sleep(100000)
      u:cancel()
      assert.equal(1000000 - 1, turns)
      assert.equal((864000 + turns) / 10, last)
    end)
  end)

  it("ends with the error of its function", function()
    run(function()
      local _, err = synod.every(1, function() error("tick", 0) end):join()
      assert.equal("tick", err)
      assert.equal(1, synod.now())
    end)
  end)
end)

describe("ten thousand tasks", function()
  local MANY = 10000

  it("sleep, wait for one event and are cancelled, each at its instant", function()
    run(function()
      local go, woken, tasks = synod.event(), 0, {}
      for i = 1, MANY do
        tasks[i] = synod.spawn(function()
          synod.sleep(i / 1000)
          local late = synod.now() - i / 1000
          go:wait()
          woken = woken + 1
          synod.sleep(3600)
          return late
        end)
      end
      synod.sleep(20)
      assert.equal(0, woken)
      go:set()
      synod.sleep(1)
      assert.equal(MANY, woken)
      assert.equal(21, synod.now())
      for i = 1, MANY, 2 do tasks[i]:cancel() end
      for i = 1, MANY do
        local late, err = tasks[i]:join()
        assert.equal(i % 2 == 1 and "Cancelled" or nil, err and err.code)
        assert.is_true(late == nil or math.abs(late) < 1e-9)
      end
      assert.equal(3620, synod.now())
    end)
  end)
end)

describe("an event", function()
  it("wakes all who wait, in their order, with its value", function()
    run(function()
      local e, woken = synod.event(), {}
      for i = 1, 3 do
        synod.spawn(function()
          local value = e:wait()
          woken[#woken + 1] = i .. value
        end)
      end
      synod.sleep(1)
      assert.is_false(e:is_set())
      e:set("!")
      synod.sleep(1)
      assert.same({ "1!", "2!", "3!" }, woken)
      assert.is_true(e:is_set())
      assert.equal("!", e:wait())
    end)
  end)

  it("loses no one who waited when it is cleared at once", function()
    run(function()
      local e = synod.event()
      local t = synod.spawn(function() return e:wait() end)
      synod.yield()
      e:set(7)
      e:clear()
      assert.equal(7, t:join())
      assert.is_false(e:is_set())
    end)
  end)

  it("stops waiting when the time is over", function()
    run(function()
      local e = synod.event()
      local value, err = e:wait(0.5)
      assert.is_nil(value)
      assert.equal("Timeout", err.code)
      assert.equal(0.5, synod.now())
    end)
  end)

  it("that is always set starves nobody", function()
    run(function()
      local e, others = synod.event(), 0
      e:set()
      synod.spawn(function() others = others + 1 end)
      for _ = 1, 1000 do e:wait() end
      assert.equal(1, others)
    end)
  end)
end)

describe("a script's own coroutine", function()
  it("may wait inside a generator", function()
    run(function()
      local seen = {}
      local function generate()
        for i = 1, 3 do
          synod.sleep(1)
          coroutine.yield(i)
        end
      end
      for i in coroutine.wrap(generate) do
        seen[#seen + 1] = i .. "@" .. synod.now()
      end
      assert.same({ "1@1.0", "2@2.0", "3@3.0" }, seen)
    end)
  end)

  it("may wait several coroutines deep, while other tasks go on", function()
    run(function()
      local ticks = 0
      synod.spawn(function() for _ = 1, 3 do synod.sleep(1) ticks = ticks + 1 end end)
      local function deep(n)
        if n == 0 then
          synod.sleep(2.5)
          return coroutine.yield("bottom")
        end
        local co = coroutine.create(deep)
        local _, value = coroutine.resume(co, n - 1)
        local back = coroutine.yield(value)
        return select(2, coroutine.resume(co, back))
      end
      local co = coroutine.create(deep)
      assert.same({ true, "bottom" }, { coroutine.resume(co, 20) })
      assert.equal(2, ticks)
      assert.same({ true, "top" }, { coroutine.resume(co, "top") })
      assert.equal("dead", coroutine.status(co))
    end)
  end)

  it("gets a cancel at its wait, and may catch it", function()
    run(function()
      local t = synod.spawn(function()
        local co = coroutine.create(function()
          local _, err = pcall(synod.sleep, 100)
          coroutine.yield(err.code)
          synod.sleep(1)
          return "end"
        end)
        local _, code = coroutine.resume(co)
        return code, select(2, coroutine.resume(co))
      end)
      synod.sleep(1)
      t:cancel()
      assert.same({ "Cancelled", "end" }, { t:join() })
    end)
  end)

  it("that waits in one task cannot be resumed or closed by another", function()
    run(function()
      local co = coroutine.create(function() synod.sleep(5) return "own" end)
      local t = synod.spawn(function() return coroutine.resume(co) end)
      synod.sleep(1)
      local ok, err = coroutine.resume(co)
      assert.is_false(ok)
      assert.matches("waits in a task", err, 1, true)
      assert.is_false(pcall(coroutine.close, co))
      assert.same({ true, "own" }, { t:join() })
      assert.equal("dead", coroutine.status(co))
      assert.is_true(coroutine.close(co))
    end)
  end)

  it("behaves as Lua's in all else", function()
    run(function()
      local ok, err = coroutine.resume(coroutine.create(function() error({ 1 }) end))
      assert.is_false(ok)
      assert.same({ 1 }, err)
      local co = coroutine.create(function(a) return a, coroutine.yield(a + 1) end)
      assert.same({ true, 2 }, { coroutine.resume(co, 1) })
      assert.same({ true, 1, "x" }, { coroutine.resume(co, "x") })
      assert.same({ false, "cannot resume dead coroutine" }, { coroutine.resume(co) })
      assert.is_false(pcall(coroutine.wrap(function() error("in wrap") end)))
      local closed = false
      local open = coroutine.create(function()
        local _ <close> = closing(function() closed = true end)
        coroutine.yield()
      end)
      coroutine.resume(open)
      assert.is_true(coroutine.close(open))
      assert.is_true(closed)
      assert.is_false(pcall(coroutine.yield, 1))
    end)
  end)

  it("is told where Lua cannot suspend", function()
    run(function()
      for _, attempt in ipairs {
        function() table.sort({ 3, 2, 1 }, function(a, b) synod.sleep(1) return a < b end) end,
        function() return (("x"):gsub("x", function() synod.sleep(1) end)) end,
        function()
          table.sort({ 2, 1 }, function(a, b)
            coroutine.wrap(function() synod.sleep(1) end)()
            return a < b
          end)
        end,
      } do
        local ok, err = pcall(attempt)
        assert.is_false(ok)
        assert.matches("synod.sleep cannot wait here", err, 1, true)
      end
      assert.equal(0, synod.now())
    end)
  end)

  it("gets its library back as it was after the run", function()
    local before = coroutine.resume
    run(function() assert.are_not.equal(before, coroutine.resume) end)
    assert.equal(before, coroutine.resume)
  end)
end)

describe("many tasks", function()
  it("10,000 sleep and end, each at its time", function()
    run(function()
      local late, tasks = 0, {}
      for i = 1, 10000 do
        tasks[i] = synod.spawn(function()
          synod.sleep(i % 100)
          if synod.now() ~= i % 100 then late = late + 1 end
        end)
      end
      for _, t in ipairs(tasks) do t:join() end
      assert.equal(0, late)
      assert.equal(99, synod.now())
    end)
  end)
end)
