-- The semaphore on the virtual clock: never more than so many.

local core = require "synod.core"
local rivals = require "spec.support.rivals"
local semaphore = require "synod.semaphore"
local synod = require "synod"

local function uploads(rival, permits, more)
  local o = { name = "uploads", permits = permits, store = rival.store, instance = rival.who }
  for name, value in next, more or {} do o[name] = value end
  return semaphore.new(o)
end

describe("a semaphore", function()
  it("has as many permits as it was given, and says who has them", function()
    rivals.run({ "a", "b" }, function(a, b)
      local first, second = assert(uploads(a, 2):acquire()), assert(uploads(b, 2):acquire())
      assert.are_not.equal(first.slot, second.slot)
      assert.is_true(first:held())
      local none, err = uploads(b, 2):acquire { timeout = 3 }
      assert.is_nil(none)
      assert.equal("Timeout", err.code)
      assert.matches("acquire a permit of the semaphore 'uploads': all 2 were out for 3 s", tostring(err), 1, true)
      assert.equal(3, synod.now())
      local holders = assert(uploads(a, 2):holders())
      assert.equal(2, #holders)
      assert.equal("a b", table.concat({ holders[first.slot].id, holders[second.slot].id }, " "))
      assert.is_true(first:release())
      local third = assert(uploads(b, 2):acquire { timeout = 0 })
      assert.equal(first.slot, third.slot)
      assert.is_true(third.fence > first.fence)
    end)
  end)

  it("does not wait for ever for a store that does not answer", function()
    rivals.run({ "a" }, function(a)
      local permit, err = uploads(a, 1):acquire()
      assert.is_nil(permit)
      assert.is_true(err.retryable)
      assert.is_true(synod.now() >= 60 and synod.now() < 90, synod.now())
    end, { faults = { a = { { kind = "throttle", ordinal = 0 } } } })
  end)

  it("wakes who waits at the instant of a release", function()
    rivals.run({ "a", "b" }, function(a, b)
      local permit = assert(uploads(a, 1):acquire())
      synod.spawn(function()
        synod.sleep(7.25)
        permit:release()
      end)
      assert(uploads(b, 1):acquire())
      assert.equal(7.25, synod.now())
    end)
  end)

  it("lets never more in than it has permits, and everybody in the end", function()
    for permits = 1, 3 do
      rivals.run({ "a", "b", "c", "d", "e" }, function(...)
        local room, lives = rivals.room(), {}
        for i, rival in ipairs { ... } do
          lives[i] = function()
            for _ = 1, 4 do
              assert(uploads(rival, permits):with(function()
                local _ <close> = room.enter(i)
                synod.sleep(core.random())
                return true
              end, { timeout = 600 }))
            end
          end
        end
        synod.all(lives)
        assert.equal(20, #room.visits)
        assert.equal(permits, room.most)
      end)
    end
  end)

  it("has the permit of one that died when its lease is over", function()
    for ttl, most in pairs { [15] = 16, [2] = 2.3 } do
      rivals.run({ "a", "b" }, function(a, b)
        local permit = assert(uploads(a, 1, { ttl = ttl }):acquire())
        local waiting = synod.spawn(function() return uploads(b, 1, { ttl = ttl }):acquire { timeout = 100 } end)
        synod.sleep(1)
        assert.is_true(permit:held())
        a.store:close()
        assert(waiting:join())
        assert.is_true(synod.now() > ttl * 0.9 and synod.now() <= 1 + most, ttl .. ": " .. synod.now())
      end)
    end
  end)

  it("stops the body of one whose lease is lost before another gets its permit", function()
    local deaf = {}
    for i = 14, 60 do deaf[#deaf + 1] = { kind = "lost-request", ordinal = i } end
    rivals.run({ "a", "b" }, function(a, b)
      local stopped
      local first = synod.spawn(function()
        return uploads(a, 1):with(function()
          local _ <close> = setmetatable({}, { __close = function() stopped = synod.now() end })
          synod.sleep(1000)
        end)
      end)
      synod.sleep(0.1)
      assert(uploads(b, 1):acquire { timeout = 100 })
      local _, err = first:join()
      assert.equal("LeaseLost", err.code)
      assert.is_true(stopped < synod.now())
    end, { faults = { a = deaf } })
  end)

  it("refuses an instance that was made with another number, until all are told", function()
    rivals.run({ "a", "b" }, function(a, b)
      local old, new = uploads(a, 3), uploads(b, 5)
      local permits = {}
      for i = 1, 3 do permits[i] = assert(old:acquire()) end
      local none, err = new:acquire { timeout = 5 }
      assert.is_nil(none)
      assert.equal("Usage", err.code)
      assert.matches("made with permits = 5, and the store says 3", tostring(err), 1, true)
      assert.equal(0, synod.now())
      assert.is_true(new:resize(5))
      for i = 4, 5 do permits[i] = assert(new:acquire { timeout = 0 }) end
      for _, permit in ipairs(permits) do assert.is_true(permit:held()) end
      none, err = old:acquire { timeout = 5 }
      assert.is_nil(none)
      assert.equal("Usage", err.code)
    end)
  end)

  it("with fewer permits than before lets nobody in until those beyond are given back", function()
    rivals.run({ "a", "b" }, function(a, b)
      local many, permits = uploads(a, 4), {}
      for _ = 1, 4 do
        local permit = assert(many:acquire())
        permits[permit.slot] = permit
      end
      local few = uploads(b, 2)
      assert.is_true(few:resize(2))
      permits[1]:release()
      permits[2]:release()
      assert.equal("Timeout", select(2, few:acquire { timeout = 2 }).code)
      permits[3]:release()
      assert.equal("Timeout", select(2, few:acquire { timeout = 2 }).code)
      permits[4]:release()
      assert(few:acquire { timeout = 0 })
    end)
  end)

  it("made fewer while somebody is about to take one beyond, lets nobody in beside the new number", function()
    local slow = { { kind = "delay", operation = "GetBlobProperties", ordinal = 1, seconds = 3 } }
    for seed = 1, 10 do
      rivals.run({ "a", "b", "c" }, function(a, b, c)
        local first = assert(uploads(a, 2):acquire())
        local late = synod.spawn(function() return uploads(b, 2):acquire { timeout = 20 } end)
        synod.sleep(1)
        local few = uploads(c, 1)
        assert.is_true(few:resize(1))
        first:release()
        local permit = few:acquire { timeout = 0 }
        synod.sleep(10)
        local other = late:ended() and late:join() or nil
        assert.is_false(permit ~= nil and permit:held() and other ~= nil and other:held())
        late:cancel()
        pcall(late.join, late)
      end, { seed = seed, faults = { b = slow } })
    end
  end)

  it("leaves nothing behind when who waits is cancelled", function()
    rivals.run({ "a", "b" }, function(a, b)
      local permit = assert(uploads(a, 1):acquire())
      local waiting = synod.spawn(function() return uploads(b, 1):acquire() end)
      synod.sleep(1)
      waiting:cancel()
      waiting:join()
      permit:release()
      assert.same({}, uploads(a, 1):holders())
    end)
  end)

  it("refuses what cannot be meant", function()
    rivals.run({ "a" }, function(a)
      local _, err = pcall(function() uploads(a, nil) end)
      assert.matches("semaphore.new: how many may hold at a time is needed", err.message, 1, true)
      _, err = pcall(function() uploads(a, 2000) end)
      assert.matches("permits = 2000 is more than a semaphore takes (1000)", err.message, 1, true)
      _, err = pcall(function() uploads(a, 1, { ttl = 70 }) end)
      assert.matches("semaphore.new: ", err.message, 1, true)
      _, err = pcall(function() uploads(a, 1):resize(0) end)
      assert.matches("semaphore:resize: a whole number from 1 to 1000 expected, got 0", err.message, 1, true)
    end)
  end)

  it("lets no more in whatever happens to requests", function()
    local kinds = { "lost-request", "lost-response", "error-after-apply", "throttle", "delay" }
    for seed = 1, 20 do
      math.randomseed(seed)
      local faults = {}
      for _ = 1, 12 do
        faults[#faults + 1] = { kind = kinds[math.random(5)], ordinal = math.random(100), seconds = math.random() * 4 }
      end
      local room = rivals.room()
      rivals.run({ "a", "b", "c" }, function(...)
        local lives = {}
        for i, rival in ipairs { ... } do
          lives[i] = function()
            for _ = 1, 3 do
              local ok, why = pcall(function()
                uploads(rival, 2, { ttl = seed % 3 == 0 and 3 or 15 }):with(function()
                  local _ <close> = room.enter(i)
                  synod.sleep(core.random() * 4)
                end, { timeout = 200 })
              end)
              assert(ok or why.code == "LeaseLost", tostring(why))
            end
          end
        end
        synod.all(lives)
      end, { seed = seed, faults = { a = faults, b = faults } })
      assert.is_true(room.most <= 2, "seed " .. seed)
    end
  end)
end)
