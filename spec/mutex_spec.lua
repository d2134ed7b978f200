-- The mutex on the virtual clock: one at a time, in which order, and what becomes of the others.

local core = require "synod.core"
local mutex = require "synod.mutex"
local rivals = require "spec.support.rivals"
local synod = require "synod"

local function lock_of(rival, more)
  local o = { name = "account", store = rival.store, instance = rival.who }
  for name, value in next, more or {} do o[name] = value end
  return mutex.new(o)
end

local function refusal(fn)
  local ok, err = pcall(fn)
  assert.is_false(ok)
  assert.equal("Usage", err.code)
  return err.message
end

describe("a mutex", function()
  it("is held by one, and says to the others by whom and since when", function()
    rivals.run({ "a", "b" }, function(a, b)
      local held = assert(lock_of(a):lock())
      assert.is_true(held:held())
      assert.is_true(held:remaining() > 10)
      local none, err = lock_of(b):try_lock()
      assert.is_nil(none)
      assert.equal("LeaseAlreadyPresent", err.code)
      assert.equal("a", err.holder)
      assert.equal(held.fence, err.fence)
      assert.is_true(held:unlock())
      assert.is_false(held:held())
      local other = assert(lock_of(b):try_lock())
      assert.is_true(other.fence > held.fence)
      assert.is_true(other:unlock())
    end)
  end)

  it("waits no longer than it was told, and names who holds it", function()
    rivals.run({ "a", "b" }, function(a, b)
      local held = assert(lock_of(a):lock())
      local none, err = lock_of(b):lock { timeout = 3 }
      assert.is_nil(none)
      assert.equal(3, synod.now())
      assert.equal("Timeout", err.code)
      assert.matches("lock the mutex 'account': not free within 3 s: a holds it since 20", tostring(err), 1, true)
      none, err = lock_of(b):lock { timeout = 0 }
      assert.is_nil(none)
      assert.equal("Timeout", err.code)
      assert.equal(3, synod.now())
      assert.is_true(held:held())
    end)
  end)

  it("passes to who waits at the instant of the unlock", function()
    rivals.run({ "a", "b" }, function(a, b)
      local held = assert(lock_of(a):lock())
      synod.spawn(function()
        synod.sleep(40.25)
        held:unlock()
      end)
      assert(lock_of(b):lock()):unlock()
      assert.equal(40.25, synod.now())
    end)
  end)

  it("is unlocked at the end of the block", function()
    rivals.run({ "a", "b" }, function(a, b)
      do
        local held <close> = assert(lock_of(a):lock())
        assert.is_true(held:held())
      end
      assert(lock_of(b):try_lock())
      assert.equal(0, synod.now())
    end)
  end)

  it("can be locked by one object again and again, and by several tasks in turn", function()
    rivals.run({ "a" }, function(a)
      local account, room = lock_of(a), rivals.room()
      local lives = {}
      for i = 1, 6 do
        lives[i] = function()
          for _ = 1, 5 do
            assert(account:with(function()
              local _ <close> = room.enter(i)
              synod.sleep(0.01)
              return true
            end, { timeout = 60 }))
          end
        end
      end
      synod.all(lives)
      assert.equal(30, #room.visits)
      assert.equal(1, room.most)
    end)
  end)

  it("leaves nothing behind when who waits is cancelled", function()
    rivals.run({ "a", "b" }, function(a, b)
      local held = assert(lock_of(a):lock())
      local waiting = synod.spawn(function() return lock_of(b):lock() end)
      synod.sleep(5)
      waiting:cancel()
      local _, err = waiting:join()
      assert.equal("Cancelled", err.code)
      assert(held:unlock())
      assert(lock_of(a):try_lock())
    end)
  end)

  it("of a holder that died is free when its lease is over, and not before", function()
    for ttl, span in pairs { [15] = { 15, 16 }, [2] = { 2, 2.4 } } do
      rivals.run({ "a", "b" }, function(a, b)
        local first = assert(lock_of(a, { ttl = ttl }):lock())
        synod.spawn(function()
          synod.sleep(ttl * 10) -- renewed until then
          assert.is_true(first:held())
          a.store:close()
        end)
        local held = assert(lock_of(b, { ttl = ttl }):lock())
        local after = synod.now() - ttl * 10
        assert.is_true(after > ttl * 2 / 3 - 0.01 and after <= span[2], ttl .. ": " .. after)
        assert.is_true(held.fence > 0)
      end)
    end
  end)

  it("bears a store that does not answer for a while, and gives up when it does not come back", function()
    local silent = {}
    for i = 1, 3 do silent[i] = { kind = "lost-request", operation = "GetBlobProperties", ordinal = i } end
    rivals.run({ "a" }, function(a)
      assert(lock_of(a):lock { timeout = 60 })
      assert.is_true(synod.now() > 1)
    end, { faults = { a = silent } })
    rivals.run({ "a" }, function(a)
      local none, err = lock_of(a):lock()
      assert.is_nil(none)
      assert.equal("Timeout", err.code)
      assert.is_true(synod.now() >= 60 and synod.now() < 90, synod.now())
    end, { faults = { a = { { kind = "lost-request", ordinal = 0 } } } })
  end)

  it("refuses what could let two hold it, with the arithmetic, and what cannot be meant", function()
    rivals.run({ "a" }, function(a)
      local line = debug.getinfo(1, "l").currentline
      local text = refusal(function() lock_of(a, { ttl = 15, renew = 14 }) end)
      assert.matches("mutex.new: ", text, 1, true)
      assert.matches("14", text, 1, true)
      assert.matches("mutex.new: .*61", refusal(function() lock_of(a, { ttl = 61 }) end))
      assert.matches("mutex.new: .*0.1", refusal(function() lock_of(a, { ttl = 0.1 }) end))
      text = refusal(function() mutex.new { store = a.store } end)
      assert.equal(("spec/mutex_spec.lua:%d: mutex.new: a name is needed, such as name = \"account\""):format(line + 6),
        text)
      assert.matches("mutex:with: a function expected, got nil", refusal(function() lock_of(a):with() end), 1, true)
    end)
  end)
end)

describe("mutex:with", function()
  it("gives what the body returns, or why there was no lock", function()
    rivals.run({ "a", "b" }, function(a, b)
      local results = table.pack(lock_of(a):with(function(held)
        assert.is_true(held:held())
        local none, err = lock_of(b):with(error, { timeout = 1 })
        assert.is_nil(none)
        assert.equal("Timeout", err.code)
        return 1, nil, held.fence
      end))
      assert.equal(3, results.n)
      assert.is_true(results[3] > 0)
      assert(lock_of(b):try_lock())
    end)
  end)

  it("unlocks when the body fails, and raises its error", function()
    rivals.run({ "a", "b" }, function(a, b)
      local ok, err = pcall(function() lock_of(a):with(function() error("broken", 0) end) end)
      assert.is_false(ok)
      assert.equal("broken", err)
      assert(lock_of(b):try_lock())
    end)
  end)

  it("gives the lock back only when all that the body has started has ended", function()
    rivals.run({ "a", "b" }, function(a, b)
      local ended_at
      lock_of(a):with(function()
        synod.spawn(function()
          local _ <close> = setmetatable({}, { __close = function()
            synod.sleep(0.5)
            ended_at = synod.now()
          end })
          synod.sleep(1000)
        end)
        synod.sleep(1)
      end)
      assert.equal(1.5, ended_at)
      assert(lock_of(b):try_lock())
    end)
  end)

  it("stops the body with LeaseLost before another can hold the lock, when nothing is heard of the store", function()
    for _, ttl in ipairs { 15, 2 } do
      local faults = {}
      for i = 12, 200 do faults[#faults + 1] = { kind = "lost-request", ordinal = i } end
      rivals.run({ "a", "b" }, function(a, b)
        local stopped_at
        local first = synod.spawn(function()
          return lock_of(a, { ttl = ttl }):with(function()
            local _ <close> = setmetatable({}, { __close = function() stopped_at = synod.now() end })
            synod.sleep(1000)
          end)
        end)
        synod.sleep(0.1)
        assert(lock_of(b, { ttl = ttl }):lock { timeout = 100 })
        local _, err = first:join()
        assert.equal("LeaseLost", err.code)
        assert.is_true(stopped_at < synod.now(), ("%g: stopped at %g, next at %g"):format(ttl, stopped_at, synod.now()))
      end, { faults = { a = faults } })
    end
  end)

  it("stops the body at once when the lease was broken", function()
    rivals.run({ "a", "b" }, function(a, b)
      local first = synod.spawn(function()
        return lock_of(a):with(function() synod.sleep(1000) end)
      end)
      synod.sleep(1)
      assert(b.store:container("locks"):blob("mutex/account"):break_lease(0))
      local _, err = first:join()
      assert.equal("LeaseLost", err.code)
      assert.is_true(synod.now() < 6, synod.now())
    end)
  end)
end)

describe("a fair mutex", function()
  local FAIR = { fair = true }

  --- Each comes at its second and stays for five; gives who was inside, in order.
  local function visits(names, begin, more)
    local room = rivals.room()
    rivals.run(names, function(...)
      local lives = {}
      for i, rival in ipairs { ... } do
        lives[i] = function()
          synod.sleep(begin[i])
          local account = lock_of(rival, { fair = true, ttl = more and more.ttl })
          assert(account:with(function()
            local _ <close> = room.enter(names[i])
            synod.sleep(5)
            return true
          end, { timeout = 300 }))
        end
      end
      synod.all(lives)
    end)
    assert.equal(1, room.most)
    return table.concat(room.visits, " ")
  end

  it("serves those who wait in the order in which they came", function()
    assert.equal("a b c d e", visits({ "a", "b", "c", "d", "e" }, { 0, 1, 2, 3, 4 }))
    assert.equal("c a e d b", visits({ "a", "b", "c", "d", "e" }, { 1, 4, 0, 3, 2 }))
    assert.equal("b a c", visits({ "a", "b", "c" }, { 2, 1, 3 }, { ttl = 3 }))
  end)

  it("lets nobody in before those who wait", function()
    rivals.run({ "a", "b", "c" }, function(a, b, c)
      local held = assert(lock_of(a, FAIR):lock())
      local waiting = synod.spawn(function() return lock_of(b, FAIR):lock() end)
      synod.sleep(1)
      local none, err = lock_of(c, FAIR):try_lock()
      assert.is_nil(none)
      assert.equal("b", err.holder)
      none, err = lock_of(c, FAIR):lock { timeout = 0 }
      assert.is_nil(none)
      assert.equal("Timeout", err.code)
      held:unlock()
      assert(waiting:join())
    end)
  end)

  it("is not taken by who comes while the first of the line has still to take it", function()
    rivals.run({ "a", "b" }, function(a, b)
      local line = require("synod.mutex.line").at(a.store:container "locks", "mutex/account.line", "a")
      local place = assert(line:join())
      local none, err = lock_of(b, FAIR):lock { timeout = 0 }
      assert.is_nil(none)
      assert.equal("a", err.holder)
      synod.spawn(function()
        synod.sleep(0.25)
        place:close()
      end)
      assert(lock_of(b, FAIR):lock { timeout = 10 })
      assert.equal(0.25, synod.now())
    end)
  end)

  it("does not wait for one that died in the line", function()
    for ttl, most in pairs { [15] = 2, [2] = 5 } do
      rivals.run({ "a", "b", "c", "d" }, function(a, b, c, d)
        local more = { fair = true, ttl = ttl }
        local held = assert(lock_of(a, more):lock())
        for i, rival in ipairs { b, c } do
          synod.spawn(function() pcall(lock_of(rival, more).lock, lock_of(rival, more)) end)
          synod.sleep(i)
        end
        local waiting = synod.spawn(function() return lock_of(d, more):lock { timeout = 60 } end)
        synod.sleep(1)
        b.store:close()
        c.store:close()
        synod.sleep(1)
        local from = synod.now()
        held:unlock()
        assert(waiting:join())
        assert.is_true(synod.now() - from <= 3 * most, ttl .. ": " .. synod.now() - from)
      end)
    end
  end)

  it("waits for many that died in the line hardly longer than for each of them once", function()
    rivals.run({ "a", "b", "c" }, function(a, b, c)
      local held = assert(lock_of(a, FAIR):lock())
      for _ = 1, 30 do
        synod.spawn(function() pcall(function() lock_of(b, FAIR):lock() end) end)
      end
      synod.sleep(1)
      b.store:close()
      local waiting = synod.spawn(function() return lock_of(c, FAIR):lock { timeout = 600 } end)
      synod.sleep(1)
      local from = synod.now()
      held:unlock()
      assert(waiting:join())
      assert.is_true(synod.now() - from <= 30 * 0.5 + 2, synod.now() - from)
    end)
  end)

  it("leaves nothing held by one that is cancelled, whenever that is", function()
    for tenths = 0, 40 do
      rivals.run({ "a", "b", "c" }, function(a, b, c)
        local first, second = assert(lock_of(a, FAIR):lock()), lock_of(b, FAIR)
        local waiting = synod.spawn(second.lock, second)
        local giving = synod.spawn(function()
          synod.sleep(2)
          first:unlock()
        end)
        synod.sleep(tenths / 10)
        waiting:cancel()
        local held = waiting:join()
        if held then held:unlock() end
        giving:join()
        assert(lock_of(c, FAIR):lock { timeout = 20 }, tenths / 10 .. " s")
      end, { faults = { b = { { kind = "delay", ordinal = 0, seconds = 0.1 } } } })
    end
  end)

  it("keeps no place of one that has given up", function()
    rivals.run({ "a", "b", "c" }, function(a, b, c)
      local held = assert(lock_of(a, FAIR):lock())
      local none = lock_of(b, FAIR):lock { timeout = 2 }
      assert.is_nil(none)
      local cancelled = synod.spawn(function() return lock_of(b, FAIR):lock() end)
      synod.sleep(1)
      cancelled:cancel()
      cancelled:join()
      assert.equal("", (a.store:container("locks"):blob("mutex/account.line"):get()))
      held:unlock()
      assert(lock_of(c, FAIR):try_lock())
    end)
  end)
end)

describe("mutexes in drawn worlds", function()
  local KINDS = { "lost-request", "lost-response", "error-after-apply", "throttle", "delay" }
  local NAMES = { "a", "b", "c" }

  local function draw_faults()
    local faults = {}
    for _ = 1, 12 do
      faults[#faults + 1] = {
        kind = KINDS[math.random(#KINDS)], ordinal = math.random(80), seconds = math.random() * 4,
      }
    end
    return faults
  end

  it("have one inside at a time, and everybody gets in", function()
    for seed = 1, 30 do
      math.randomseed(seed)
      local fair, ttl = seed % 2 == 0, seed % 3 == 0 and 2 or 15
      local room, inside = rivals.room(), 0
      rivals.run(NAMES, function(...)
        local lives = {}
        for i, rival in ipairs { ... } do
          lives[i] = function()
            for _ = 1, 4 do
              local account = lock_of(rival, { fair = fair, ttl = ttl })
              local ok, why = pcall(account.with, account, function()
                local _ <close> = room.enter(NAMES[i])
                synod.sleep(core.random() * 3)
                inside = inside + 1
              end, { timeout = 200 })
              assert(ok or why.code == "LeaseLost", tostring(why))
            end
          end
        end
        synod.all(lives)
      end, { seed = seed, faults = { a = draw_faults(), b = draw_faults() } })
      assert.equal(1, room.most, "seed " .. seed)
      assert.is_true(inside >= 8, ("seed %d: %d"):format(seed, inside))
    end
  end)
end)
