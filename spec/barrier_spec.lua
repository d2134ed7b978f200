-- The barrier on the virtual clock: who passes when. Instants are compared with ==.

local core = require "synod.core"
local fleet = require "spec.support.fleet"
local synod = require "synod"

local each, foreign, starts = fleet.each, fleet.foreign, fleet.starts

describe("a barrier", function()
  it("lets nobody pass before the last has arrived, and all at that instant", function()
    fleet.run(function(store)
      local outcomes = fleet.meet(5, { store = store, name = "startup" }, starts(0, 3, 1, 4.25, 2))
      each(outcomes, function(o)
        assert.equal(4.25, o.at)
        assert.same({ count = 5, missing = {}, parties = 5 }, o.passed)
      end)
    end)
  end)

  it("lets a single instance pass at once", function()
    fleet.run(function(store)
      assert.equal(0, fleet.meet(1, { store = store, name = "alone" }, starts(0))[0].at)
    end)
  end)

  it("does so for 300, in whatever order they come", function()
    fleet.run(function(store)
      local begin = {}
      for ordinal = 0, 299 do begin[ordinal] = ordinal * 7919 % 300 / 100 end
      each(fleet.meet(300, { store = store, name = "startup" }, begin), function(o)
        assert.equal(2.99, o.at)
        assert.equal(300, o.passed.count)
      end)
    end)
  end)

  it("can arrive first, work on, and wait later", function()
    fleet.run(function(store)
      local early = fleet.barrier(0, 2, { store = store, name = "startup" })
      assert.is_true(early:arrive())
      assert.is_true(early:arrive(), "again is harmless")
      synod.spawn(function()
        synod.sleep(3)
        local last = fleet.barrier(1, 2, { store = store, name = "startup" })
        assert(last:arrive())
        assert.is_true(last:arrive(), "again is harmless for the one that opened the gate, too")
        assert(last:arrive_and_wait {})
        assert.equal(3, synod.now(), "the early one's flag is enough")
      end)
      synod.sleep(10)
      assert(early:wait())
      assert.equal(10, synod.now())
      assert.equal(2, early:wait().count, "the outcome can be asked for again")
    end)
  end)

  it("tells who has arrived", function()
    fleet.run(function(store)
      local b = fleet.barrier(2, 3, { store = store, name = "startup" })
      assert(b:arrive())
      local count, missing = b:arrived()
      assert.equal(1, count)
      assert.same({ "worker_IN_0", "worker_IN_1" }, missing)
    end)
  end)

  it("ends with Timeout at the very instant, saying who is missing", function()
    fleet.run(function(store)
      local o = fleet.meet(3, { store = store, name = "startup" }, { [0] = 0, [2] = 1 }, 7)[0]
      assert.equal(7, o.at)
      assert.equal("Timeout", o.err.code)
      assert.same({ "worker_IN_1" }, o.err.missing)
      assert.equal(2, o.err.count)
      assert.matches("wait at the barrier 'startup': 2 of 3 had arrived when 7 s had passed; missing: worker_IN_1",
        tostring(o.err), 1, true)
    end)
  end)

  it("can wait again after a Timeout", function()
    fleet.run(function(store)
      local b = fleet.barrier(0, 2, { store = store, name = "startup" })
      local _, err = b:arrive_and_wait { timeout = 1 }
      assert.equal("Timeout", err.code)
      synod.spawn(fleet.meet, 2, { store = store, name = "startup" }, { [1] = 4 })
      assert(b:arrive_and_wait { timeout = 10 })
      assert.equal(5, synod.now())
    end)
  end)

  it("looks once for a timeout of 0", function()
    fleet.run(function(store)
      local b = fleet.barrier(0, 2, { store = store, name = "startup" })
      local _, err = b:arrive_and_wait { timeout = 0 }
      assert.equal("Timeout", err.code)
      assert.equal(0, synod.now())
    end)
  end)
end)

describe("a restarted instance", function()
  it("passes at once when the gate is open", function()
    fleet.run(function(store)
      fleet.meet(3, { store = store, name = "startup" }, starts(0, 1, 2))
      synod.sleep(100)
      local o = fleet.meet(3, { store = store, name = "startup" }, { [1] = 0 })[1]
      assert.equal(102, o.at)
      assert.same({}, o.passed.missing)
    end)
  end)

  it("is counted once, by the flag of its earlier life", function()
    fleet.run(function(store)
      local life = synod.spawn(fleet.meet, 3, { store = store, name = "startup" }, { [0] = 0 })
      synod.sleep(1)
      life:cancel()
      local outcomes = fleet.meet(3, { store = store, name = "startup" }, starts(1, 2, 5))
      each(outcomes, function(o) assert.equal(6, o.at) end)
    end)
  end)

  it("need not come back: its flag counts", function()
    fleet.run(function(store)
      local life = synod.spawn(fleet.meet, 2, { store = store, name = "startup" }, { [0] = 0 })
      synod.sleep(1)
      life:cancel()
      assert.equal(3, fleet.meet(2, { store = store, name = "startup" }, { [1] = 2 })[1].at)
    end)
  end)
end)

describe("a gate that nobody opened", function()
  it("is opened by those who wait when the last one crashed before it could", function()
    fleet.run(function(store)
      synod.spawn(function()
        synod.sleep(3)
        foreign(store, "d1/worker/startup_2") -- the flag, and then nothing more
      end)
      local outcomes = fleet.meet(3, { store = store, name = "startup", recheck = 10 }, { [0] = 0, [1] = 1 })
      each(outcomes, function(o) assert.is_true(o.at >= 3 and o.at <= 13, "at " .. o.at) end)
      assert.equal("0-2", (store:container("flags"):blob("d1/worker/startup.gate"):get()))
    end)
  end)

  it("of a bare barrier is opened within two seconds of a foreign client's flag", function()
    fleet.run(function(store)
      synod.spawn(function()
        synod.sleep(3)
        foreign(store, "startupWorkDone_0")
      end)
      local o = fleet.meet(2, { store = store, name = "startupWorkDone", bare = true }, { [1] = 0 })[1]
      assert.is_true(o.at >= 3 and o.at <= 5, "at " .. o.at)
    end)
  end)

  it("is opened when the waiter's own flag was taken down, too", function()
    fleet.run(function(store)
      synod.spawn(function()
        synod.sleep(1)
        assert(store:container("flags"):blob("d1/worker/startup_0"):delete())
        synod.sleep(20)
        assert(fleet.barrier(1, 2, { store = store, name = "startup" }):arrive())
      end)
      assert.equal(21, fleet.meet(2, { store = store, name = "startup" }, { [0] = 0 })[0].at)
    end)
  end)
end)

describe("flags that must not count", function()
  it("are those of an earlier deployment", function()
    fleet.run(function(store)
      fleet.meet(2, { store = store, name = "startup", deployment = "yesterday" }, starts(0, 0))
      local o = fleet.meet(2, { store = store, name = "startup" }, { [0] = 0 }, 30)[0]
      assert.equal("Timeout", o.err.code)
      assert.equal(1, o.err.count)
    end)
  end)

  it("are those of another round", function()
    fleet.run(function(store)
      fleet.meet(2, { store = store, name = "step", round = 1 }, starts(0, 0))
      local o = fleet.meet(2, { store = store, name = "step", round = 2 }, { [0] = 0 }, 5)[0]
      assert.equal("Timeout", o.err.code)
    end)
  end)

  it("are those of barriers with longer names, and of ordinals that are none", function()
    fleet.run(function(store)
      for _, name in ipairs { "go_1_1", "go_01", "go_2", "go_-1", "go_x", "go_", "gone_1", "go_1e0" } do
        foreign(store, name)
      end
      local o = fleet.meet(2, { store = store, name = "go", bare = true }, { [0] = 0 }, 5)[0]
      assert.equal(1, o.err.count)
    end)
  end)
end)

describe("a deployment that grows", function()
  it("does not take the gate of the smaller one for its own", function()
    fleet.run(function(store)
      fleet.meet(2, { store = store, name = "startup" }, starts(0, 0))
      local outcomes = fleet.meet(4, { store = store, name = "startup" }, { [2] = 1, [3] = 5 })
      each(outcomes, function(o) assert.equal(5, o.at) end)
      local body, props = store:container("flags"):blob("d1/worker/startup.gate"):get()
      assert.equal("0-3", body)
      assert.equal("4", props.metadata.synod_parties)
      assert(fleet.barrier(0, 2, { store = store, name = "startup" }):arrive_and_wait { timeout = 0 },
        "who still counts two takes the larger one's")
    end)
  end)

  it("does not count the flags of instances that are no longer among the parties", function()
    fleet.run(function(store)
      for _, ordinal in ipairs { 3, 4 } do fleet.barrier(ordinal, 5, { store = store, name = "startup" }):arrive() end
      local o = fleet.meet(3, { store = store, name = "startup" }, { [0] = 0 }, 5)[0]
      assert.equal(1, o.err.count)
    end)
  end)
end)

describe("two who both see the last flag", function()
  it("agree on one gate", function()
    -- Both raise their flags before either has listed.
    local faults = { { operation = "ListBlobs", ordinal = 0, kind = "delay", seconds = 1 } }
    fleet.run(function(store)
      local outcomes = fleet.meet(2, { store = store, name = "startup" }, starts(0, 0.5))
      assert.is_table(outcomes[0].passed)
      assert.same(outcomes[0].passed, outcomes[1].passed)
    end, { faults = faults })
  end)
end)

describe("rounds", function()
  it("keep a loop in step", function()
    fleet.run(function(store)
      local step, tasks = {}, {}
      for ordinal = 0, 2 do
        tasks[#tasks + 1] = synod.spawn(function()
          for round = 1, 5 do
            synod.sleep((ordinal * 7 + round * 3) % 5)
            for other = 0, 2 do assert.is_true((step[other] or 0) >= round - 1, "a whole round ahead") end
            step[ordinal] = round
            assert(fleet.barrier(ordinal, 3, { store = store, name = "step", round = round }):arrive_and_wait())
          end
        end)
      end
      for _, t in ipairs(tasks) do assert(not t:failed(), (select(2, t:join()))) end
      assert.same({ [0] = 5, 5, 5 }, step)
    end)
  end)

  it("can be taken down one behind, by one instance, while the others go on", function()
    fleet.run(function(store)
      local tasks = {}
      for ordinal = 0, 2 do
        tasks[#tasks + 1] = synod.spawn(function()
          local before
          for round = 1, 20 do
            synod.sleep((ordinal * 5 + round) % 3)
            local b = fleet.barrier(ordinal, 3, { store = store, name = "step", round = round })
            assert(b:arrive_and_wait { timeout = 60 })
            if before and ordinal == 1 then assert(before:reset()) end
            before = b
          end
        end)
      end
      for _, t in ipairs(tasks) do assert(not t:failed(), (select(2, t:join()))) end
      assert.same({ "d1/worker/step.20.gate", "d1/worker/step.20_0", "d1/worker/step.20_1", "d1/worker/step.20_2" },
        fleet.sorted(fleet.names(store)))
    end)
  end)

  it("are needed: one object is one use", function()
    fleet.run(function(store)
      local b = fleet.barrier(0, 1, { store = store, name = "step" })
      assert(b:arrive_and_wait())
      local ok, err = pcall(b.arrive_and_wait, b)
      assert.is_false(ok)
      assert.matches("one object is one use, and a loop names its round", err, 1, true)
    end)
  end)
end)

describe("a store that fails", function()
  it("ends the arrival with its err", function()
    fleet.run(function(store)
      local o = fleet.meet(2, { store = store, name = "startup" }, { [0] = 0 })[0]
      assert.equal("Unauthorized", o.err.code)
    end, { faults = { { operation = "PutBlob", ordinal = 0, kind = "throttle", code = "Unauthorized" } } })
  end)

  it("does not undo an arrival whose flag stands already", function()
    local faults = {}
    for i = 1, 5 do faults[i] = { operation = "ListBlobs", ordinal = i, kind = "lost-request" } end
    fleet.run(function(store)
      local outcomes = fleet.meet(2, { store = store, name = "startup" }, { [0] = 0, [1] = 30 })
      assert.is_table(outcomes[0].passed)
      assert.equal(30, outcomes[0].at)
    end, { faults = faults })
  end)

  it("is borne with during the wait while it may come right", function()
    local faults = {}
    for i = 1, 8 do faults[i] = { operation = "GetBlob", ordinal = i, kind = "lost-request" } end
    fleet.run(function(store)
      local outcomes = fleet.meet(2, { store = store, name = "startup" }, { [0] = 0, [1] = 15 })
      assert.is_table(outcomes[0].passed)
      assert.is_true(outcomes[0].at >= 15 and outcomes[0].at < 60, "at " .. outcomes[0].at)
    end, { faults = faults })
  end)

  it("ends the wait when it has not answered for a minute", function()
    fleet.run(function(store)
      local o = fleet.meet(2, { store = store, name = "startup" }, { [0] = 0 })[0]
      assert.is_true(o.err.retryable)
      assert.is_true(o.at >= 60 and o.at <= 90, "at " .. o.at)
    end, { faults = { { operation = "GetBlob", ordinal = 0, kind = "lost-request" } } })
  end)
end)

describe("a cancel", function()
  it("during the wait leaves the arrival standing", function()
    fleet.run(function(store)
      local t = synod.spawn(fleet.meet, 2, { store = store, name = "startup" }, { [0] = 0 })
      synod.sleep(2)
      t:cancel()
      local _, err = t:join()
      assert.equal("Cancelled", err.code)
      assert(fleet.barrier(1, 2, { store = store, name = "startup" }):arrive_and_wait { timeout = 0 })
    end)
  end)

  it("during a list is a cancel, not a refusal of the store", function()
    local faults = { { operation = "ListBlobs", ordinal = 1, kind = "delay", seconds = 2 } }
    core.main(function()
      local store <close> = assert(core.open_store("memory:", { faults = faults }))
      local b = fleet.barrier(0, 2, { store = store, name = "startup" })
      local t = synod.spawn(b.arrive, b)
      synod.sleep(1)
      t:cancel("enough")
      local _, err = t:join()
      assert.equal("Cancelled", err.code)
      assert.equal("enough", err.reason)
    end, { clock = "virtual", seed = 1 })
  end)
end)
