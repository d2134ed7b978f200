-- Kept leases on a real Azurite, in real time: what bulk work, a crash and a broken lease make of them.

local azurite = require "spec.support.azurite"
local core = require "synod.core"
local lease = require "synod.lease"
local synod = require "synod"

local PUTS = 1000

--- fn(open): `open()` gives a store and the blob that all contend for; closing it is a crash.
local function run(fn)
  local name = azurite.fresh "locks"
  core.main(function()
    fn(function()
      local store = assert(core.open_store(azurite.lenient()))
      return store, store:container(name):blob "mutex/a"
    end)
  end)
end

local function contender(blob, id)
  return lease.contender(blob, { ttl = 15, purpose = "spec", instance = { id = id } })
end

describe("a kept lease on Azurite", function()
  it("passes on after a crash: not before the lease is over, and at most a second after", function()
    run(function(open)
      local store, blob = open()
      local _, blob_b = open()
      local a = assert(contender(blob, "a"):take { timeout = 10 })
      synod.sleep(5.5)
      assert.is_true(a:status().renewals == 1)
      local confirmed, hard = a:status().confirmed, a:status().hard
      store:close()
      assert.is_false(a:held())
      local b = assert(contender(blob_b, "b"):take { timeout = 30 })
      assert.is_true(synod.now() > hard)
      assert.is_true(synod.now() - confirmed < 15 + 3, synod.now() - confirmed)
      assert.equal(a.fence + 1, b.fence)
      assert.is_true(b:release())
    end)
  end)

  it("is released while a thousand writes are under way, and lost at once when it was broken", function()
    run(function(open)
      local store, blob = open()
      local held = assert(contender(blob, "a"):take { timeout = 10 })
      local bulk, done, tasks = store:container(azurite.fresh "bulk"), 0, {}
      assert(bulk:create())
      for i = 1, PUTS do
        tasks[i] = synod.spawn(function()
          assert(bulk:blob("b" .. i):put("", { timeout = 60, try_timeout = 60 }))
          done = done + 1
        end)
      end
      while done == 0 do synod.sleep(0.001) end
      local before = done
      assert.is_true(held:release())
      local overtaken_by = done - before
      held = assert(contender(blob, "a"):take { timeout = 10 })
      assert(blob:break_lease(0))
      for _, task in ipairs(tasks) do task:join() end
      assert.equal(PUTS, done)
      assert.is_true(overtaken_by < PUTS / 4, overtaken_by .. " went before it")
      assert.equal("LeaseLost", held:wait_lost(10).code)
    end)
  end)
end)
