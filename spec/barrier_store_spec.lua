-- What a barrier leaves in the store, how often it asks, and what is cleaned up.

local barrier = require "synod.barrier"
local flags = require "synod.barrier.flags"
local fleet = require "spec.support.fleet"
local generation = require "synod.generation"
local synod = require "synod"

local each, foreign, sorted, starts = fleet.each, fleet.foreign, fleet.sorted, fleet.starts

describe("what a barrier writes", function()
  it("is one page blob of 512 bytes for each, and a gate, below deployment and role", function()
    fleet.run(function(store)
      fleet.meet(2, { store = store, name = "startup" }, starts(0, 1))
      local items = fleet.names(store)
      assert.same({ "d1/worker/startup.gate", "d1/worker/startup_0", "d1/worker/startup_1" }, sorted(items))
      local flag = items["d1/worker/startup_1"]
      assert.equal("page", flag.type)
      assert.equal(512, flag.length)
      assert.same({ synod_v = "1", synod_instance = "worker_IN_1" }, flag.metadata)
      local body, props = store:container("flags"):blob("d1/worker/startup.gate"):get()
      assert.equal("0-1", body)
      assert.same({ synod_v = "1", synod_parties = "2", synod_at_least = "2" }, props.metadata)
    end)
  end)

  it("has the round in the name, without a deployment too", function()
    fleet.run(function(store)
      fleet.meet(1, { store = store, name = "step", round = 7 }, starts(0))
      barrier.new({
        store = store, name = "step", round = "b", instance = { ordinal = 0, count = 1 },
      }):arrive_and_wait()
      assert.same({ "d1/worker/step.7.gate", "d1/worker/step.7_0", "step.b.gate", "step.b_0" },
        sorted(fleet.names(store)))
    end)
  end)

  it("is the classic recipe's for a bare one", function()
    fleet.run(function(store)
      fleet.meet(1, { store = store, name = "startupWorkDone", bare = true }, starts(0))
      assert.same({ "startupWorkDone.gate", "startupWorkDone_0" }, sorted(fleet.names(store)))
    end)
  end)

  it("keeps a slash in a deployment's id from looking like another level", function()
    fleet.run(function(store)
      fleet.meet(1, { store = store, name = "x", deployment = "prod/50%" }, starts(0))
      assert.same({ "prod%2F50%25/worker/x.gate", "prod%2F50%25/worker/x_0" }, sorted(fleet.names(store)))
    end)
  end)

  it("says who was counted as ranges that can be read back", function()
    local function set(list)
      local s = {}
      for _, n in ipairs(list) do s[n] = true end
      return s
    end
    for _, list in ipairs { {}, { 0 }, { 0, 1, 2 }, { 0, 2, 3, 9 }, { 5, 7 } } do
      assert.same(set(list), flags.set(flags.ranges(set(list)), 10))
    end
    assert.equal("0,2-3,9", flags.ranges(set { 0, 2, 3, 9 }))
    assert.same({}, flags.set("rubbish 7-3 -1 99999999999999999999", 5))
    assert.same(set { 1, 2 }, flags.set("1-999999999999", 3))
  end)
end)

describe("requests of an instance", function()
  local function total(store)
    local sum = 0
    for _, n in next, store:usage() do sum = sum + n end
    return sum
  end

  --- Requests of each of `count` instances that arrive `gap` seconds apart, each with a store of its own.
  local function measure(count, gap, gone)
    local folder = os.tmpname()
    os.remove(folder)
    assert(os.execute(("mkdir -m 700 '%s'"):format(folder)))
    local url = "embedded:" .. folder .. "/store.db?relaxed"
    local made = {}
    fleet.run(function(first)
      assert(first:container("flags"):create())
      local tasks = {}
      for ordinal = 0, count - 1 do
        tasks[#tasks + 1] = synod.spawn(function()
          local store <close> = assert(synod.open(url))
          synod.sleep(ordinal * gap)
          assert(fleet.barrier(ordinal, count, { store = store, name = "startup", round = 1 }):arrive_and_wait {})
          made[ordinal] = total(store)
        end)
      end
      for _, t in ipairs(tasks) do assert(not t:failed(), (select(2, t:join()))) end
      if gone then gone(url, first) end
    end, { url = url })
    os.execute(("rm -rf '%s'"):format(folder))
    return made
  end

  it("are 4 of one that waits and 3 of the last, however many there are", function()
    for _, count in ipairs { 2, 5, 60 } do
      local made = measure(count, 0.4 / count)
      for ordinal = 0, count - 2 do assert.equal(4, made[ordinal], count .. " instances, number " .. ordinal) end
      assert.equal(3, made[count - 1])
    end
  end)

  it("grow with the time they wait, not with the number of instances", function()
    local few, many = measure(3, 30), measure(61, 1)
    assert.is_true(few[0] >= many[0] - 6 and few[0] <= many[0] + 6, few[0] .. " and " .. many[0])
    assert.is_true(many[0] < 30, many[0] .. " in 60 s")
  end)

  it("are 2 of one that comes back to an open gate", function()
    local again
    measure(3, 0.1, function(url)
      local store <close> = assert(synod.open(url))
      assert(fleet.barrier(1, 3, { store = store, name = "startup", round = 1 }):arrive_and_wait { timeout = 0 })
      again = total(store)
    end)
    assert.equal(2, again)
  end)

  it("are two more of the first of all, which makes the container", function()
    fleet.run(function(store)
      assert(fleet.barrier(0, 1, { store = store, name = "startup", round = 1 }):arrive_and_wait())
      assert.same({ PutBlob = 3, CreateContainer = 1, ListBlobs = 1 }, store:usage())
    end)
  end)

  it("need one list for each 5,000 flags", function()
    fleet.run(function(store)
      for ordinal = 1, 5000 do foreign(store, "big_" .. ordinal) end
      local before = store:usage().ListBlobs or 0
      local passed = assert(fleet.barrier(0, 5001, { store = store, name = "big", bare = true }):arrive_and_wait())
      assert.equal(5001, passed.count)
      assert.equal(2, store:usage().ListBlobs - before)
    end)
  end)
end)

describe("records of a newer version", function()
  local function put_newer(store, name, body)
    assert(store:container("flags"):create())
    assert(store:container("flags"):blob(name):put(body, { metadata = { synod_v = "2", synod_parties = "9" } }))
  end

  it("are refused: a flag", function()
    fleet.run(function(store)
      put_newer(store, "d1/worker/startup_1", "")
      local o = fleet.meet(3, { store = store, name = "startup" }, { [0] = 0 })[0]
      assert.equal("NewerVersion", o.err.code)
      assert.matches("upgrade synod here first", tostring(o.err), 1, true)
    end)
  end)

  it("are refused, and never overwritten: a gate", function()
    fleet.run(function(store)
      put_newer(store, "d1/worker/startup.gate", "0-8")
      local outcomes = fleet.meet(2, { store = store, name = "startup" }, starts(0, 1))
      each(outcomes, function(o) assert.equal("NewerVersion", o.err.code) end)
      assert.equal("0-8", (store:container("flags"):blob("d1/worker/startup.gate"):get()))
    end)
  end)

  it("are refused by a reset, which then takes nothing down", function()
    fleet.run(function(store)
      put_newer(store, "d1/worker/startup.gate", "0-8")
      foreign(store, "d1/worker/startup_1")
      local done, err = fleet.barrier(0, 2, { store = store, name = "startup" }):reset()
      assert.is_nil(done)
      assert.equal("NewerVersion", err.code)
      assert.same({ "d1/worker/startup.gate", "d1/worker/startup_1" }, sorted(fleet.names(store)))
    end)
  end)

  it("but a gate that is no gate is replaced when all are there", function()
    fleet.run(function(store)
      assert(store:container("flags"):create())
      assert(store:container("flags"):blob("d1/worker/startup.gate"):put("open!"))
      local outcomes = fleet.meet(2, { store = store, name = "startup" }, starts(0, 3))
      each(outcomes, function(o) assert.equal(3, o.at) end)
    end)
  end)
end)

describe("an arrival", function()
  --- Refuses the first so many writes of a blob.
  local function refusals(count, kind)
    local faults = {}
    for i = 1, count do faults[i] = { operation = "PutBlob", ordinal = i, kind = kind, seconds = 0.1 } end
    return { faults = faults }
  end

  it("bears a store that is too busy for longer than a call lasts", function()
    fleet.run(function(store)
      local outcome = fleet.meet(1, { store = store, name = "startup" }, starts(0))[0]
      assert.is_table(outcome.passed)
      assert.is_true(store:usage().PutBlob > 20)
    end, refusals(20, "throttle"))
  end)

  it("keeps to the time it is given", function()
    fleet.run(function(store)
      local began = synod.now()
      local passed = fleet.barrier(0, 1, { store = store, name = "startup" }):arrive_and_wait { timeout = 3 }
      assert.is_nil(passed)
      assert.is_true(synod.now() - began < 4.5)
    end, refusals(400, "throttle"))
  end)

  it("gives up when the store refuses for a minute", function()
    fleet.run(function(store)
      local began = synod.now()
      local arrived, err = fleet.barrier(0, 1, { store = store, name = "startup" }):arrive()
      assert.is_nil(arrived)
      assert.is_true(err.retryable)
      local took = synod.now() - began
      assert.is_true(took >= 60 and took < 80, took)
    end, refusals(400, "throttle"))
  end)
end)

describe("clean-up", function()
  local DAY = 24 * 3600

  it("takes the flags of barriers older than 7 days, and leaves their gates", function()
    fleet.run(function(store)
      fleet.meet(2, { store = store, name = "startup", deployment = "old" }, starts(0, 0))
      fleet.meet(1, { store = store, name = "startupWorkDone", bare = true }, starts(0))
      foreign(store, "theirs/by/hand_1")
      assert(store:container("flags"):blob("newer/worker/startup_0"):put("", { metadata = { synod_v = "2" } }))
      synod.sleep(5 * DAY)
      fleet.meet(2, { store = store, name = "startup", deployment = "younger" }, starts(0, 0))
      synod.sleep(3 * DAY)
      fleet.meet(1, { store = store, name = "startup" }, starts(0))
      synod.sleep(1)
      assert.same({
        "d1/worker/startup.gate", "d1/worker/startup_0", "newer/worker/startup_0", "old/worker/startup.gate",
        "startupWorkDone.gate", "startupWorkDone_0", "theirs/by/hand_1", "younger/worker/startup.gate",
        "younger/worker/startup_0", "younger/worker/startup_1",
      }, sorted(fleet.names(store)))
      local back = fleet.meet(2, { store = store, name = "startup", deployment = "old" }, { [1] = 0 }, 0)[1]
      assert.is_table(back.passed, "an instance of the old one that comes back still passes")
    end)
  end)

  it("takes the gates too of a deployment that was made for one run", function()
    fleet.run(function(store)
      local id = generation.new_of_one_run()
      assert.are_not.equal(id, generation.new_of_one_run())
      fleet.meet(2, { store = store, name = "startup", deployment = id }, starts(0, 0))
      synod.sleep(7 * DAY + 2)
      assert.equal(3, generation.clean(store:container "flags", "d1", synod.time()))
      assert.same({}, fleet.names(store))
    end)
  end)

  it("neither delays nor fails those who pass", function()
    local faults = { { operation = "ListBlobs", ordinal = 2, kind = "throttle", code = "Unauthorized" } }
    fleet.run(function(store)
      assert.equal(0, fleet.meet(1, { store = store, name = "startup" }, starts(0))[0].at)
      synod.sleep(1)
      assert.equal(2, store:usage().ListBlobs)
    end, { faults = faults })
  end)

  it("does a bounded amount of work", function()
    fleet.run(function(store)
      assert(store:container("flags"):create())
      for i = 1, 300 do
        assert(flags.at(store:container "flags", "old/worker/startup", i, "worker_IN_" .. i):raise())
      end
      synod.sleep(8 * DAY)
      assert.equal(200, generation.clean(store:container "flags", "d1", synod.time()))
      assert.equal(100, generation.clean(store:container "flags", "d1", synod.time()))
    end)
  end)

  it("finds what is old behind many names, and a barrier of many flags", function()
    fleet.run(function(store)
      assert(store:container("flags"):create())
      for i = 1, 5001 do foreign(store, "elsewhere_" .. i) end
      for i = 1, 5001 do
        assert(flags.at(store:container "flags", "old/worker/startup", i, "worker_IN_" .. i):raise())
      end
      synod.sleep(8 * DAY)
      assert.equal(200, generation.clean(store:container "flags", "d1", synod.time()))
    end)
  end)

  it("takes everything of a deployment that is known to have ended", function()
    fleet.run(function(store)
      fleet.meet(2, { store = store, name = "startup", deployment = "ended" }, starts(0, 0))
      fleet.meet(1, { store = store, name = "startup", deployment = "ended2" }, starts(0))
      foreign(store, "ended/of/another_1")
      assert.equal(3, generation.remove(store:container "flags", "ended"))
      assert(store:container("flags"):blob("ended/of/another_1"):delete())
      assert.same({ "ended2/worker/startup.gate", "ended2/worker/startup_0" }, sorted(fleet.names(store)))
    end)
  end)
end)
