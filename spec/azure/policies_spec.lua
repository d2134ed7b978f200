-- Counter, mutex, semaphore and quorum against a real storage server, three instances at once; the other policies have
-- specs of their own beside this one.

local azurite = require "spec.support.azurite"
local core = require "synod.core"
local synod = require "synod"

local INSTANCES, TURNS = 3, 3
local WAIT_S = 60

--- Runs fn(store, instance, n) for three instances at once, each with a connection of its own.
local function run(fn)
  core.main(function()
    local lives = {}
    for n = 1, INSTANCES do
      lives[n] = function()
        local store <close> = assert(synod.open(azurite.lenient()))
        fn(store, { id = "worker_IN_" .. n, ordinal = n, count = INSTANCES }, n)
      end
    end
    synod.all(lives)
  end)
end

describe("over Azure", function()
  it("a counter loses nothing", function()
    local name, seen = azurite.fresh("orders"), {}
    run(function(store)
      local orders = require("synod.counter").new { name = name, store = store }
      for _ = 1, TURNS do
        local number = assert(orders:add(1, { timeout = WAIT_S }))
        assert(not seen[number])
        seen[number] = true
      end
      local done, actual = orders:compare_and_set(-1, 7)
      assert.is_false(done)
      assert.equal("integer", math.type(actual))
    end)
    assert.equal(INSTANCES * TURNS, #seen)
  end)

  for what, given in pairs {
    ["a lock"] = {}, ["a short lock"] = { ttl = 10 }, ["a fair lock"] = { fair = true },
    ["a short fair lock"] = { ttl = 10, fair = true },
  } do
    it(what .. " has one holder at a time, with a fence that grows", function()
      local name, inside, fences = azurite.fresh("lock"), 0, {}
      run(function(store, instance)
        local lock = require("synod.mutex").new {
          name = name, store = store, instance = instance, ttl = given.ttl, fair = given.fair,
        }
        for _ = 1, TURNS do
          assert(lock:with(function(held)
            assert(inside == 0, "two hold it")
            inside = 1
            local _ <close> = setmetatable({}, { __close = function() inside = 0 end })
            fences[#fences + 1] = held.fence
            synod.sleep(0.01)
            return true
          end, { timeout = WAIT_S }))
        end
      end)
      assert.equal(INSTANCES * TURNS, #fences)
      for i = 2, #fences do assert.is_true(fences[i] > fences[i - 1]) end
    end)
  end

  for what, ttl in pairs { ["a semaphore"] = 15, ["a short semaphore"] = 10 } do
    it(what .. " lets two of three in", function()
      local name, inside = azurite.fresh("permits"), 0
      run(function(store, instance)
        local two = require("synod.semaphore").new {
          name = name, store = store, instance = instance, ttl = ttl, permits = 2,
        }
        for _ = 1, TURNS do
          local permit <close> = assert(two:acquire { timeout = WAIT_S })
          inside = inside + 1
          assert(inside <= 2, "three have a permit")
          assert(#two:holders() >= 1)
          synod.sleep(0.02)
          inside = inside - 1
          assert.is_true(permit:held())
        end
      end)
    end)
  end

  it("a quorum has one head at a time, on a page blob", function()
    local name, inside, heads = azurite.fresh("cluster"), 0, 0
    run(function(store, instance)
      local cluster <close> = require("synod.quorum").new {
        name = name, store = store, instance = instance, member_ttl = 6,
      }
      assert.is_true(assert(cluster:wait { timeout = WAIT_S }).count >= 2)
      assert(cluster:head(function(term)
        assert(inside == 0, "two heads")
        inside, heads = 1, heads + 1
        assert.equal("page", assert(store:container("locks"):blob("quorum/" .. name):head()).type)
        assert(term:put(store:container("locks"):blob(name .. "-plan"), instance.id))
        inside = 0
        return true
      end, { timeout = WAIT_S }))
      while heads < INSTANCES do synod.sleep(0.1) end -- who leaves takes the quorum along
    end)
    assert.equal(INSTANCES, heads)
  end)

  it("a lease over several stores is one, though they are of several kinds", function()
    core.main(function()
      local azure <close> = assert(synod.open(azurite.lenient()))
      local one <close> = assert(core.open_store "memory:")
      local two <close> = assert(core.open_store "memory:")
      local name = azurite.fresh("ledger")
      local function ledger(id)
        return require("synod.quorum").new { name = name, store = azure, instance = { id = id } }
      end
      local held = assert(ledger("a"):lease { stores = { azure, one, two }, timeout = WAIT_S })
      assert.equal("Timeout", select(2, ledger("b"):lease { stores = { azure, one, two }, timeout = 0 }).code)
      local fence = held.fence
      assert(held:release())
      local next_one <close> = assert(ledger("b"):lease { stores = { azure, one, two }, timeout = WAIT_S })
      assert.is_true(next_one.fence > fence)
    end)
  end)
end)
