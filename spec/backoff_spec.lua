-- Waiting longer and longer, and the one polling loop, on the virtual clock.

local backoff = require "synod.backoff"
local core = require "synod.core"
local synod = require "synod"

local function run(fn, seed)
  return core.main(fn, { clock = "virtual", seed = seed or 1 })
end

--- The refusal of a call, without the line.
local function refusal(fn)
  local ok, err = pcall(fn)
  assert.is_false(ok)
  assert.equal("Usage", err.code)
  return (err.message:gsub("^spec/backoff_spec.lua:%d+: ", "")), err.message:match("^spec/backoff_spec.lua:(%d+): ")
end

describe("backoff.new", function()
  it("without jitter gives min, then factor times more, up to max", function()
    local pause = backoff.new { min = 0.5, max = 5, factor = 2, jitter = false }
    local waits = {}
    for i = 1, 6 do waits[i] = pause:next() end
    assert.same({ 0.5, 1, 2, 4, 5, 5 }, waits)
    pause:reset()
    assert.equal(0.5, pause:next())
  end)

  it("with jitter draws each wait between min and factor times the one before", function()
    run(function()
      local pause = backoff.new { min = 0.1, max = 10, factor = 3 }
      local last, longest = 0.1, 0
      for _ = 1, 1000 do
        local wait = pause:next()
        assert.is_true(wait >= 0.1 and wait <= math.min(10, last * 3))
        last, longest = wait, math.max(longest, wait)
      end
      assert.is_true(longest > 9, "it must come near max")
    end)
  end)

  it("lets those who began together come apart", function()
    run(function()
      local a, b = backoff.new {}, backoff.new {}
      assert.are_not.equal(a:next(), b:next())
    end)
  end)

  it("draws the same from the same seed, another from another", function()
    local function draw(seed) return run(function() return backoff.new({}):next() end, seed) end
    assert.equal(draw(7), draw(7))
    assert.are_not.equal(draw(7), draw(8))
  end)

  it("raises what is wrong at the line that made it, with the numbers", function()
    local line = debug.getinfo(1, "l").currentline
    local text, at = refusal(function() backoff.new { min = 2, max = 1 } end)
    assert.equal("backoff.new: max (1 s) is below min (2 s)", text)
    assert.equal(line + 1, tonumber(at))
    assert.equal("backoff.new: option 'min' must be a number of seconds above 0, got 0",
      refusal(function() backoff.new { min = 0 } end))
    assert.equal("backoff.new: option 'factor' must be a number from 1 on, got 0.5",
      refusal(function() backoff.new { factor = 0.5 } end))
    assert.equal("backoff.new: unknown option \"maximum\"; it takes factor, jitter, max, min",
      refusal(function() backoff.new { maximum = 3 } end))
    assert.equal("backoff.new: a table of options expected, got 3", refusal(function() backoff.new(3) end))
  end)

  it("knows the mean of its waits in the long run", function()
    run(function()
      for _, range in ipairs { { 0.2, 10 }, { 1, 10 }, { 5, 15 } } do
        local pause, sum = backoff.new { min = range[1], max = range[2] }, 0
        for _ = 1, 20000 do sum = sum + pause:next() end
        local mean, told = sum / 20000, backoff.mean(range[1], range[2])
        assert.is_true(math.abs(mean / told - 1) < 0.1, ("%g, not %g"):format(mean, told))
      end
    end)
  end)

  it("takes a max below the usual min, and a min above the usual max", function()
    assert.equal(0.01, backoff.new({ max = 0.01, jitter = false }):next())
    assert.equal(60, backoff.new({ min = 60, jitter = false }):next())
  end)
end)

describe("backoff.poll without a store", function()
  it("returns all results of fn as soon as the first is true", function()
    run(function()
      local calls = 0
      local results = table.pack(backoff.poll(function()
        calls = calls + 1
        return calls == 3 and "yes", nil, calls
      end, { min = 1, max = 4, jitter = false }))
      assert.same({ "yes", nil, 3, n = 3 }, results)
      assert.equal(4, synod.now()) -- 1, then 3
    end)
  end)

  it("waits exactly as its back-off says", function()
    run(function()
      local at = {}
      backoff.poll(function()
        at[#at + 1] = synod.now()
        return #at == 5
      end, { min = 1, max = 4, factor = 2, jitter = false })
      assert.same({ 0, 1, 3, 7, 11 }, at)
    end)
  end)

  it("ends with Timeout at the very instant, after a last look", function()
    run(function()
      local at = {}
      local result, err = backoff.poll(function(left)
        at[#at + 1] = ("%g/%g"):format(synod.now(), left)
      end, { min = 2, jitter = false, factor = 1, timeout = 5 })
      assert.is_nil(result)
      assert.equal("Timeout", err.code)
      assert.equal(5, synod.now())
      assert.same({ "0/5", "2/3", "4/1", "5/0" }, at)
    end)
  end)

  it("looks once for a timeout of 0", function()
    run(function()
      local calls = 0
      local _, err = backoff.poll(function() calls = calls + 1 end, { timeout = 0 })
      assert.equal("Timeout", err.code)
      assert.equal(1, calls)
      assert.equal(0, synod.now())
    end)
  end)

  it("says in the err what the last answer was", function()
    run(function()
      local _, err = backoff.poll(function()
        return nil, core.new_error { code = "BlobNotFound", operation = "look at", target = "x" }
      end, { timeout = 1 })
      assert.matches("the last answer: look at x: the blob does not exist", err.message, 1, true)
    end)
  end)

  it("raises what fn raises", function()
    run(function()
      local ok, err = pcall(backoff.poll, function() error("broken", 0) end)
      assert.is_false(ok)
      assert.equal("broken", err)
    end)
  end)

  it("is ended by a cancel", function()
    run(function()
      local t = synod.spawn(backoff.poll, function() end)
      synod.sleep(10)
      t:cancel()
      local _, err = t:join()
      assert.equal("Cancelled", err.code)
      assert.equal(10, synod.now())
    end)
  end)

  it("refuses what cannot be meant", function()
    run(function()
      assert.equal("backoff.poll: a function expected, got nil", refusal(function() backoff.poll(nil) end))
      assert.equal("backoff.poll: max (1 s) is below min (2 s)",
        refusal(function() backoff.poll(print, { min = 2, max = 1 }) end))
      assert.equal("backoff.poll: container and prefix say where to look for a change: name the store too",
        refusal(function() backoff.poll(print, { container = "flags" }) end))
      assert.equal("backoff.poll: option 'timeout' must be a number of seconds, 0 or more, got -1",
        refusal(function() backoff.poll(print, { timeout = -1 }) end))
    end)
  end)
end)

describe("backoff.poll over a store that tells of changes", function()
  local PLACE = { container = "things", prefix = "waited-for" }

  --- Polls for the blob, and counts looks.
  local function poll_for(store, options)
    local looks = {}
    local blob = store:container("things"):blob "waited-for"
    local found, err = backoff.poll(function()
      looks[#looks + 1] = synod.now()
      return (blob:head())
    end, options)
    return looks, found, err
  end

  local function with(store, more)
    local o = { store = store, container = PLACE.container, prefix = PLACE.prefix }
    for name, value in pairs(more or {}) do o[name] = value end
    return o
  end

  local function in_store(fn)
    run(function()
      local store <close> = assert(synod.open "memory:")
      assert(store:container("things"):create())
      fn(store, store:container("things"))
    end)
  end

  it("wakes at the instant of the change", function()
    in_store(function(store, things)
      synod.spawn(function()
        synod.sleep(1.25)
        things:blob("waited-for"):put("")
      end)
      local looks, found = poll_for(store, with(store))
      assert.is_table(found)
      assert.same({ 0, 1.25 }, looks)
    end)
  end)

  it("misses no change that is made between the look and the wait", function()
    in_store(function(store, things)
      local calls = 0
      assert(backoff.poll(function()
        calls = calls + 1
        if calls == 2 then return true end
        assert(things:blob("waited-for"):put("")) -- after the look, as it were
      end, with(store)))
      assert.equal(0, synod.now())
      assert.equal(2, calls)
    end)
  end)

  it("looks again after `recheck` seconds all the same: a writer may have died before it told", function()
    in_store(function(store)
      local looks, _, err = poll_for(store, with(store, { recheck = 4, timeout = 10 }))
      assert.same({ 0, 4, 8, 10 }, looks)
      assert.equal("Timeout", err.code)
    end)
  end)

  it("does not look at once, for ever, for changes that are not the awaited one", function()
    in_store(function(store, things)
      local noise = synod.spawn(function()
        while true do
          things:blob("waited-for-something-else"):put("")
          synod.sleep(0.0001)
        end
      end)
      local looks = poll_for(store, with(store, { timeout = 1 }))
      noise:cancel()
      noise:join()
      assert.is_true(#looks > 10 and #looks < 60, #looks .. " looks")
    end)
  end)

  it("sleeps through as many changes as fn says cannot matter", function()
    in_store(function(store, things)
      synod.spawn(function()
        for i = 1, 5 do
          synod.sleep(0.01)
          things:blob("waited-for-" .. i):put("")
        end
      end)
      local at = {}
      local target = store:mark(PLACE) + 4
      assert(backoff.poll(function()
        at[#at + 1] = synod.now()
        return #at == 2, target
      end, with(store)))
      assert.same({ 0, 0.05 }, at)
    end)
  end)

  it("looks after a while when there were changes, but fewer than fn expected", function()
    in_store(function(store, things)
      synod.spawn(function()
        synod.sleep(0.1)
        things:blob("waited-for"):put("")
      end)
      local at = {}
      local target = store:mark(PLACE) + 1000
      backoff.poll(function()
        at[#at + 1] = synod.now()
        return nil, target
      end, with(store, { recheck = 5, timeout = 8 }))
      assert.same({ 0, 0.5, 5.5, 8 }, at)
    end)
  end)

  it("raises when the store is closed under it", function()
    run(function()
      local store = assert(synod.open "memory:")
      assert(store:container("things"):create())
      local t = synod.spawn(poll_for, store, with(store))
      synod.sleep(1)
      store:close()
      local _, err = t:join()
      assert.matches("closed", tostring(err), 1, true)
    end)
  end)
end)
