-- Work queues, scattered jobs, memberships and schedules against a real storage server.

local azurite = require "spec.support.azurite"
local core = require "synod.core"
local cron = require "synod.cron"
local log = require "synod.log"
local membership = require "synod.membership"
local scatter = require "synod.scatter"
local sh = require "spec.support.sh"
local synod = require "synod"
local workqueue = require "synod.workqueue"

setup(function() log.configure { level = "error" } end) -- what is moved away is told of
teardown(function() log.configure { level = "info" } end)

--- On the real clock: fn(store).
local function run(fn)
  core.main(function()
    local store <close> = assert(synod.open(azurite.lenient()))
    fn(store)
  end)
end

local function instance(n) return { id = "worker_IN_" .. n } end

local function wait_until(fn)
  local ends = synod.now() + 20
  while not fn() do
    assert(synod.now() < ends, "it did not come true in 20 s")
    synod.sleep(0.05)
  end
end

describe("over Azure", function()
  it("a work queue hands out, extends, tries again and sets apart", function()
    run(function(store)
      local name = azurite.fresh("tasks")
      local q = workqueue.new {
        name = name, store = store, instance = instance(1), visibility = 2, concurrency = 4, max_attempts = 2,
        retry = { min = 1, max = 1 }, poll_min = 0.05, poll_max = 0.3,
      }
      local seen = {}
      local consumer = synod.spawn(function()
        return q:consume(function(msg)
          seen[msg.body] = (seen[msg.body] or 0) + 1
          if msg.body == "long" then synod.sleep(4) end
          if msg.body == "bad" then error("broken", 0) end
        end)
      end)
      for _, body in ipairs { "long", "bad", "<&\"é>" } do assert(q:push(body)) end
      wait_until(function() return q:stats().done == 2 and q:stats().poisoned == 1 end)
      assert.same({ long = 1, bad = 2, ["<&\"é>"] = 1 }, seen)
      assert(q:drain())
      assert(consumer:join())
      local stats = q:stats()
      assert.equal(0, stats.waiting)
      assert.equal(1, stats.poison)
    end)
  end)

  it("a consumer is told of a push by another process of the same run, and looks at once", function()
    local folder <close> = sh.folder()
    folder:write("hinted.lua", ([[
      local synod = require "synod"
      local q = require("synod.workqueue").new { name = %q, poll_min = 15, poll_max = 20 }
      if synod.instance.ordinal == 0 then
        assert(q:push("first"))
        synod.sleep(3)
        assert(q:push(synod.now()))
        synod.sleep(2)
      else
        synod.spawn(function() synod.sleep(5.5) q:drain() end)
        q:consume(function(msg)
          if msg.body ~= "first" then print(("told after %%.3f"):format(synod.now() - msg.body)) end
        end)
      end
    ]]):format(azurite.fresh("hinted")))
    local output, code = sh.run("$SYNOD run -n 2 $DIR/hinted.lua", {
      dir = folder.path, env = { SYNOD_STORE = azurite.lenient() },
    })
    assert.equal(0, code, output)
    local after = tonumber(output:match("told after ([%d.]+)"))
    assert.is_true(after ~= nil and after < 2, output)
  end)

  it("a scattered job is answered, in order", function()
    run(function(store)
      local name, container = azurite.fresh("squares"), azurite.fresh("scatter")
      local function of(n)
        return scatter.new {
          name = name, container = container, store = store, instance = instance(n), concurrency = 4, poll_min = 0.05,
          poll_max = 0.3,
        }
      end
      local worker = of(1)
      local working = synod.spawn(function() return worker:work(function(n) return n * n end) end)
      local pieces, squares = {}, { n = 20 }
      for i = 1, 20 do pieces[i], squares[i] = i, i * i end
      assert.same(squares, of(2):map(pieces, { timeout = 30 }))
      worker:drain()
      assert(working:join())
    end)
  end)

  it("members are seen, and those that end are not", function()
    run(function(store)
      local tables = azurite.fresh("members", "")
      local function of(n)
        return membership.new {
          name = "workers", table = tables, ttl = 1.5, store = store, instance = instance(n), poll_min = 0.1,
          poll_max = 0.2,
        }
      end
      local a, b, counts = of(1), of(2), {}
      local watching = of(3):watch(function(members) counts[#counts + 1] = #members end)
      assert(a:join { info = { port = 7001 } })
      wait_until(function() return counts[#counts] == 1 end)
      assert(b:join())
      wait_until(function() return counts[#counts] == 2 end)
      assert.equal(7001, of(4):members()[1].info.port)
      synod.sleep(2)
      assert.is_nil(a:lost(), "it beats on")
      assert(a:leave())
      wait_until(function() return counts[#counts] == 1 end)
      for _, t in ipairs(b.tasks) do t:cancel() end -- as a crash does
      wait_until(function() return counts[#counts] == 0 end)
      watching:cancel()
    end)
  end)

  it("a slot of a schedule is run on one of several instances", function()
    run(function(store)
      local container = azurite.fresh("cron")
      local ran, all = {}, {}
      for n = 1, 3 do
        local jobs = cron.new { container = container, store = store, instance = instance(n), ttl = 3 }
        jobs:every(1, "tick", function(slot)
          ran[slot.id] = (ran[slot.id] or 0) + 1
          return n
        end)
        all[jobs] = synod.spawn(function() return jobs:run() end)
      end
      synod.sleep(3.5)
      local any
      for jobs, running in pairs(all) do
        jobs:drain()
        assert(running:join())
        any = jobs
      end
      local count = 0
      for id, times in pairs(ran) do
        count = count + 1
        assert.equal(1, times, id)
        assert.equal("done", any:result("tick", id).state)
      end
      assert.is_true(count >= 2, count .. " slots")
    end)
  end)
end)
