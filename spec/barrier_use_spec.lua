-- The barrier's other uses: fewer than all, a double barrier, reset; and what is refused where it is made.

local barrier = require "synod.barrier"
local fleet = require "spec.support.fleet"
local synod = require "synod"

local each, foreign, sorted, starts = fleet.each, fleet.foreign, fleet.sorted, fleet.starts

describe("at_least and within", function()
  it("go on with fewer when the time has passed, and say who was missing", function()
    fleet.run(function(store)
      local options = { store = store, name = "startup", at_least = 2, within = 10 }
      local outcomes = fleet.meet(4, options, { [0] = 0, [2] = 3 })
      each(outcomes, function(o)
        assert.equal(10, o.at, "ten seconds after the first one's arrival")
        assert.same({ count = 2, missing = { "worker_IN_1", "worker_IN_3" }, parties = 4 }, o.passed)
      end)
    end)
  end)

  it("do not wait when all are there", function()
    fleet.run(function(store)
      local options = { store = store, name = "startup", at_least = 2, within = 10 }
      each(fleet.meet(3, options, starts(0, 1, 2)), function(o) assert.equal(2, o.at) end)
    end)
  end)

  it("wait on while there are too few, and go on with the one that makes them enough", function()
    fleet.run(function(store)
      local options = { store = store, name = "startup", at_least = 3, within = 10 }
      local outcomes = fleet.meet(5, options, { [0] = 0, [1] = 0, [4] = 30 })
      assert.is_true(outcomes[0].at >= 30 and outcomes[0].at <= 40, "at " .. outcomes[0].at)
      assert.equal(3, outcomes[0].passed.count)
    end)
  end)

  it("tell a late one that the others went on without it", function()
    fleet.run(function(store)
      local options = { store = store, name = "startup", at_least = 2, within = 5 }
      fleet.meet(3, options, { [0] = 0, [1] = 0 })
      local late = fleet.meet(3, options, { [2] = 10 })[2]
      assert.equal(15, late.at)
      assert.same({ "worker_IN_2" }, late.passed.missing)
    end)
  end)

  it("without `within` go on as soon as enough are there", function()
    fleet.run(function(store)
      local outcomes = fleet.meet(3, { store = store, name = "startup", at_least = 2 }, { [0] = 0, [1] = 4 })
      each(outcomes, function(o) assert.equal(4, o.at) end)
    end)
  end)

  it("of others do not bind one that wants all", function()
    fleet.run(function(store)
      fleet.meet(3, { store = store, name = "startup", at_least = 2 }, starts(0, 0))
      local strict = fleet.meet(3, { store = store, name = "startup" }, { [0] = 0 }, 20)[0]
      assert.equal("Timeout", strict.err.code)
      assert.same({ "worker_IN_2" }, strict.err.missing)
    end)
  end)

  it("end with Timeout when the timeout is shorter", function()
    fleet.run(function(store)
      local options = { store = store, name = "startup", at_least = 1, within = 10 }
      local o = fleet.meet(2, options, { [0] = 0 }, 4)[0]
      assert.equal("Timeout", o.err.code)
      assert.equal(4, o.at)
    end)
  end)
end)

describe("a double barrier", function()
  it("lets all in together and out together", function()
    fleet.run(function(store)
      local log = {}
      local tasks = {}
      for ordinal = 0, 2 do
        tasks[#tasks + 1] = synod.spawn(function()
          local b = fleet.barrier(ordinal, 3, { store = store, name = "work" })
          synod.sleep(ordinal)
          assert(b:enter { timeout = 60 })
          local entered = synod.now()
          synod.sleep(10 - 3 * ordinal)
          assert(b:leave { timeout = 60 })
          log[ordinal] = ("%g-%g"):format(entered, synod.now())
        end)
      end
      for _, t in ipairs(tasks) do t:join() end
      assert.same({ [0] = "2-12", "2-12", "2-12" }, log)
      assert.same({
        "d1/worker/work.gate", "d1/worker/work.leave.gate", "d1/worker/work.leave_0", "d1/worker/work.leave_1",
        "d1/worker/work.leave_2", "d1/worker/work_0", "d1/worker/work_1", "d1/worker/work_2",
      }, sorted(fleet.names(store)))
    end)
  end)

  it("waits at the end for those who were counted in, and only for them", function()
    fleet.run(function(store)
      local options = { store = store, name = "work", at_least = 2, within = 5 }
      local left = {}
      for _, ordinal in ipairs { 0, 2 } do
        synod.spawn(function()
          local b = fleet.barrier(ordinal, 3, options)
          assert.equal(2, assert(b:enter()).count)
          synod.sleep(ordinal)
          left[ordinal] = assert(b:leave()) and synod.now()
        end)
      end
      synod.sleep(60)
      assert.same({ [0] = 7, [2] = 7 }, left)
    end)
  end)

  it("lets one that was restarted inside leave with the others", function()
    fleet.run(function(store)
      for ordinal = 0, 1 do
        synod.spawn(function() fleet.barrier(ordinal, 2, { store = store, name = "work" }):enter() end)
      end
      synod.sleep(1) -- both are in, and both are started again
      local left = {}
      for ordinal = 0, 1 do
        synod.spawn(function()
          local b = fleet.barrier(ordinal, 2, { store = store, name = "work" })
          assert(b:enter { timeout = 0 })
          synod.sleep(3 * ordinal)
          left[ordinal] = assert(b:leave()) and synod.now()
        end)
      end
      synod.sleep(10)
      assert.same({ [0] = 4, 4 }, left)
    end)
  end)

  it("is not left before it was entered", function()
    fleet.run(function(store)
      local b = fleet.barrier(0, 2, { store = store, name = "work" })
      local ok, err = pcall(b.leave, b)
      assert.is_false(ok)
      assert.matches("leave() comes after enter()", err, 1, true)
    end)
  end)
end)

describe("reset", function()
  it("takes down flags and gates, so that the name can be used from new", function()
    fleet.run(function(store)
      local options = { store = store, name = "startupWorkDone", bare = true }
      fleet.meet(2, options, starts(0, 0))
      foreign(store, "startupWorkDoneToo_0")
      local b = fleet.barrier(0, 2, options)
      assert.is_true(b:reset())
      assert.same({ "startupWorkDoneToo_0" }, sorted(fleet.names(store)))
      local _, err = b:arrive_and_wait { timeout = 1 }
      assert.equal("Timeout", err.code)
    end)
  end)

  it("is of the whole name, whoever raised the flags", function()
    fleet.run(function(store)
      local b = fleet.barrier(0, 3, { store = store, name = "startupWorkDone", bare = true })
      foreign(store, "startupWorkDone_1")
      local count, missing = b:arrived()
      assert.equal(1, count)
      assert.same({ "startupWorkDone_0", "startupWorkDone_2" }, missing)
      assert.is_true(b:reset())
      assert.same({}, sorted(fleet.names(store)))
    end)
  end)

  it("has nothing to do where there is nothing", function()
    fleet.run(function(store)
      assert.is_true(fleet.barrier(0, 2, { store = store, name = "startup" }):reset())
    end)
  end)
end)

describe("barrier.new", function()
  local function refusal(options)
    local ok, err = pcall(barrier.new, options)
    assert.is_false(ok)
    assert.equal("Usage", err.code)
    return err.message
  end

  local HERE = { ordinal = 0, count = 3, role = "worker", deployment = "d1" }

  local function with(changes)
    local o = { name = "startup", instance = HERE }
    for name, value in next, changes do o[name] = value end
    return o
  end

  it("refuses what only whoever starts the instances can know, and says how to give it", function()
    assert.matches("has no ordinal: run it with -n N", refusal { name = "startup" }, 1, true)
    assert.matches("how many instances there are is not known", refusal {
      name = "startup", instance = { ordinal = 0, role = "w", deployment = "d" },
    }, 1, true)
    local nowhere = { ordinal = 0, count = 3, role = "worker" }
    assert.matches("without a deployment the flags of an earlier run would count",
      refusal { name = "startup", instance = nowhere }, 1, true)
    assert(barrier.new { name = "startup", instance = nowhere, round = 1 })
    assert(barrier.new { name = "startup", instance = nowhere, bare = true })
    assert(barrier.new { name = "startup", instance = nowhere, deployment = "d2" })
  end)

  it("refuses it at the line of the script", function()
    local line = debug.getinfo(1, "l").currentline + 1
    local ok, err = pcall(function() barrier.new { name = "startup" } end)
    assert.is_false(ok)
    assert.equal(("spec/barrier_use_spec.lua:%d:"):format(line), err.message:match("^%S+"))
  end)

  it("refuses numbers that contradict each other, with the numbers", function()
    local cases = {
      { { at_least = 4 }, "at_least = 4 of parties = 3 can never arrive" },
      { { parties = 1, instance = { ordinal = 2, deployment = "d", role = "w" } }, "is instance 2, and 1 parties" },
      { { parties = 10001 }, "parties = 10001 is more than a barrier takes (10000)" },
      { { within = 5 }, "within says when fewer are enough: give at_least = N too" },
      { { poll_min = 2, poll_max = 1 }, "poll_max (1 s) is below poll_min (2 s)" },
      { { round = "leave" }, "the other side of a double barrier" },
      { { within = -1 }, "option 'within' must be a number of seconds, 0 or more, got -1" },
      { { round = 1.5 }, "option 'round' must be letters, digits" },
      { { name = "a.b" }, "option 'name' must be letters, digits" },
      { { instance = { ordinal = "0", count = 3, deployment = "d", role = "w" } }, "has no ordinal" },
      { { deployment = ("d"):rep(1000) }, "the names together have 1015 bytes (1000)" },
      { { name = "" }, "option 'name' must be letters, digits" },
      { { atleast = 2 }, "unknown option \"atleast\"; it takes at_least, bare" },
    }
    for _, case in ipairs(cases) do assert.matches(case[2], refusal(with(case[1])), 1, true) end
    assert.matches("a name is needed", refusal { instance = HERE }, 1, true)
  end)

  it("refuses a wait without an arrival, which nobody could end", function()
    local b = barrier.new(with {})
    local ok, err = pcall(b.wait, b)
    assert.is_false(ok)
    assert.matches("call arrive() before wait()", err, 1, true)
  end)
end)
