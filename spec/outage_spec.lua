-- Who waits for a store that does not answer says so once, and once that it answers again.

local cron = require "synod.cron"
local fleet = require "spec.support.fleet"
local log = require "synod.log"
local membership = require "synod.membership"
local mutex = require "synod.mutex"
local outage = require "synod.outage"
local partition = require "synod.partition"
local synod = require "synod"
local workqueue = require "synod.workqueue"

local ME = { id = "worker_IN_0", deployment = "d1" }
local LOST = 20 -- attempts, more than the first two calls make

local said, warn, info

before_each(function()
  said, warn, info = {}, log.warn, log.info
  log.warn = function(message, fields) said[#said + 1] = { "warn", message, fields } end
  log.info = function(message, fields) said[#said + 1] = { "info", message, fields } end
end)

after_each(function() log.warn, log.info = warn, info end)

--- Attempts of an operation that get no answer, from one on.
local function silent(operation, from)
  local faults = {}
  for i = 1, LOST do faults[i] = { kind = "lost-request", operation = operation, ordinal = (from or 1) + i - 1 } end
  return { faults = faults }
end

local function assert_told(who)
  local lines = {}
  for i, each in ipairs(said) do lines[i] = each[1] .. ": " .. each[2] end
  assert.same({
    "warn: " .. who .. " waits for the store until it answers", "info: " .. who .. " goes on: the store answers again",
  }, lines)
  assert.matches("no answer", said[1][3].why)
  assert.is_true(said[2][3].after > 0)
end

describe("an outage of the store is told once", function()
  it("by whoever notes each look", function()
    fleet.run(function()
      local silence = outage.new "x"
      silence:note(nil)
      assert.same({}, said)
      silence:note("gone", { name = "a" })
      synod.sleep(7)
      silence:note("still gone", { name = "b" })
      silence:note(nil, { name = "a" })
      silence:note(nil, { name = "b" })
      assert.same({
        { "warn", "x waits for the store until it answers", { name = "a", why = "gone" } },
        { "info", "x goes on: the store answers again", { name = "a", after = 7 } },
      }, said)
    end)
  end)

  it("after a while where that is asked for, and not when it was shorter", function()
    fleet.run(function()
      local silence = outage.new("x", 5)
      silence:note "gone"
      synod.sleep(4)
      silence:note "gone"
      silence:note(nil)
      silence:note "gone again"
      synod.sleep(5)
      assert.same({}, said)
      silence:note "still gone"
      silence:note(nil)
      assert.same({
        { "warn", "x waits for the store until it answers", { why = "still gone" } },
        { "info", "x goes on: the store answers again", { after = 5 } },
      }, said)
    end)
  end)

  it("by who waits for a lock", function()
    fleet.run(function(store)
      assert(assert(mutex.new { name = "x", store = store, instance = ME }:lock { timeout = 300 }):unlock())
    end, silent "GetBlobProperties")
    assert_told "mutex/x"
  end)

  it("by schedules when they begin", function()
    fleet.run(function(store)
      local jobs = cron.new { store = store, instance = ME }
      jobs:every(3600, "a", function() end)
      local running = synod.spawn(function() return jobs:run() end)
      synod.sleep(300)
      jobs:drain { timeout = 0 }
      assert(running:join())
    end, silent "ListBlobs")
    assert_told "cron"
  end)

  it("by the consumers of a work queue", function()
    fleet.run(function(store)
      local queue = workqueue.new { name = "tasks", store = store, instance = ME }
      assert(queue:push "x")
      local running = synod.spawn(function() return queue:consume(function() end) end)
      synod.sleep(300)
      queue:drain {}
      assert(running:join())
    end, silent "GetMessages")
    assert_told "work queue"
  end)

  it("by who watches a membership", function()
    fleet.run(function(store)
      local watching = membership.new({ name = "workers", store = store, instance = ME }):watch(function() end)
      synod.sleep(300)
      watching:cancel()
      watching:join()
    end, silent "QueryEntities")
    assert_told "membership"
  end)

  it("by who runs items of a partition", function()
    fleet.run(function(store)
      local shares = partition.new { name = "shards", store = store, instance = ME }
      local running = synod.spawn(function()
        return shares:run({ "i1" }, function() synod.sleep(1e6) end)
      end)
      synod.sleep(400)
      assert(shares:retire())
      assert(running:join())
    end, silent("ListBlobs", 3))
    assert_told "partition"
  end)
end)
