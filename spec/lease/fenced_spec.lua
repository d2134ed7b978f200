-- Fenced writes: of two holders' the older one's never comes after the newer one's, whatever happens on the way.

local core = require "synod.core"
local fenced = require "synod.lease.fenced"

local function run(fn, options)
  return core.main(function()
    local store <close> = assert(core.open_store("memory:", options))
    assert(store:container("data"):create())
    assert(store:table("balances"):create())
    return fn(store:container("data"):blob "account", store:table "balances", store)
  end, { clock = "virtual", seed = 1 })
end

local function metadata_of(blob)
  return assert(blob:head()).metadata
end

local OLD, NEW = { fence = 7 }, { fence = 8 }

describe("a fenced write of a blob", function()
  it("makes it, and writes over what an older fence or none has left", function()
    run(function(blob)
      assert(fenced.put(OLD, blob, "1", { metadata = { colour = "red" } }))
      assert.same({ synod_fence = "7", synod_v = "1", colour = "red" }, metadata_of(blob))
      assert(fenced.put(OLD, blob, "2"))
      assert(fenced.put(NEW, blob, "3"))
      assert.equal("3", (blob:get()))
      assert.same({ synod_fence = "8", synod_v = "1" }, metadata_of(blob))
      assert(blob:put "plain")
      assert(fenced.put(OLD, blob, "4"))
    end)
  end)

  it("is refused where a newer fence is stored, and changes nothing", function()
    run(function(blob)
      assert(fenced.put(NEW, blob, "new", { metadata = { colour = "red" } }))
      local before = assert(blob:head())
      for _, write in ipairs {
        function() return fenced.put(OLD, blob, "old") end,
        function() return fenced.set_metadata(OLD, blob, { colour = "blue" }) end,
      } do
        local done, err = write()
        assert.is_nil(done)
        assert.equal("Fenced", err.code)
        assert.matches("8, and ours is 7", err.message, 1, true)
        assert.matches("account", tostring(err), 1, true)
      end
      assert.equal(before.etag, assert(blob:head()).etag)
    end)
  end)

  it("keeps what synod keeps there, and the metadata of a script with put's own rules", function()
    run(function(blob)
      assert(blob:put("x", { metadata = { synod_fence = "5", synod_holder = "a", colour = "red" } }))
      assert(fenced.set_metadata(OLD, blob, { shape = "round" }))
      assert.same({ synod_fence = "7", synod_v = "1", synod_holder = "a", shape = "round" }, metadata_of(blob))
      assert.equal("x", (blob:get()))
    end)
  end)

  it("refuses what a newer version has written, and a fence that is no number", function()
    run(function(blob)
      assert(blob:put("x", { metadata = { synod_v = "2" } }))
      assert.equal("NewerVersion", select(2, fenced.put(NEW, blob, "y")).code)
      assert(blob:put("x", { metadata = { synod_fence = "seven" } }))
      assert.equal("FenceRegressed", select(2, fenced.put(NEW, blob, "y")).code)
      assert.equal("x", (blob:get()))
    end)
  end)

  it("takes the caller's own condition too", function()
    run(function(blob)
      assert.equal("ConditionNotMet", select(2, fenced.put(OLD, blob, "1", { if_match = "*" })).code)
      local first = assert(fenced.put(OLD, blob, "1", { if_none_match = "*" }))
      assert.equal("BlobAlreadyExists", select(2, fenced.put(OLD, blob, "2", { if_none_match = "*" })).code)
      local second = assert(fenced.put(OLD, blob, "2", { if_match = first.etag }))
      assert.equal("ConditionNotMet", select(2, fenced.put(OLD, blob, "3", { if_match = first.etag })).code)
      assert(fenced.put(OLD, blob, "3", { if_match = second.etag }))
      assert.equal("3", (blob:get()))
    end)
  end)

  it("gives the lease of the leased blob itself", function()
    run(function(blob)
      assert(blob:put "")
      local lease <close> = assert(blob:lease { duration = 15 })
      assert.equal("LeaseIdMissing", select(2, fenced.put(OLD, blob, "1")).code)
      assert(fenced.put({ fence = 7, blob = blob, id = lease.id }, blob, "1"))
    end)
  end)

  it("says at the caller's line what the caller got wrong", function()
    run(function(blob)
      for _, wrong in ipairs {
        { "this lease was taken without a fence", function() fenced.put({}, blob, "x") end },
        { "a body is a string", function() fenced.put(OLD, blob, function() end) end },
        { "is synod's own", function() fenced.put(OLD, blob, "x", { metadata = { Synod_Fence = "9" } }) end },
        { "is synod's own", function() fenced.set_metadata(OLD, blob, { synod_v = "9" }) end },
        { "a table of options expected", function() fenced.put(OLD, blob, "x", "y") end },
        { "takes \"*\" only", function() fenced.put(OLD, blob, "x", { if_none_match = "\"1\"" }) end },
      } do
        local fine, message = pcall(wrong[2])
        assert.is_false(fine)
        assert.matches(wrong[1], message, 1, true)
        assert.matches("fenced_spec.lua:%d+:", message)
      end
    end)
  end)

  it("that there is no blob is said, and that there is no container", function()
    run(function(blob, _, store)
      assert.equal("BlobNotFound", select(2, fenced.set_metadata(OLD, blob, { a = "1" })).code)
      assert.equal("ContainerNotFound", select(2, fenced.put(OLD, store:container("none"):blob "x", "1")).code)
    end)
  end)
end)

describe("a fenced write of an entity", function()
  it("inserts, merges, and is refused where a newer fence is stored", function()
    run(function(_, balances)
      local e = { partition = "a", row = "1", cents = 10 }
      assert(fenced.merge(OLD, balances, e))
      assert.is_nil(e.synod_fence) -- the caller's table stays as it was
      assert(fenced.merge(NEW, balances, { partition = "a", row = "1", note = "n" }))
      local found = assert(balances:get("a", "1"))
      assert.same({ 10, "n", 8 }, { found.cents, found.note, found.synod_fence })
      local done, err = fenced.merge(OLD, balances, { partition = "a", row = "1", cents = 11 })
      assert.is_nil(done)
      assert.equal("Fenced", err.code)
      assert.equal(10, assert(balances:get("a", "1")).cents)
    end)
  end)

  it("says what is wrong", function()
    run(function(_, balances, store)
      assert.has_error(function() fenced.merge(OLD, balances, { partition = "a", row = "1", synod_fence = 9 }) end)
      local err = select(2, fenced.merge(OLD, store:table "none", { partition = "a", row = "1" }))
      assert.equal("TableNotFound", err.code)
    end)
  end)
end)

--- A target that changes when it is looked at, `times` times: the write must look again.
local function restless(real, look, change, times)
  return setmetatable({}, { __tostring = function() return tostring(real) end, __index = function(_, name)
    return function(_, ...)
      local results = table.pack(real[name](real, ...))
      if name == look and times > 0 then
        times = times - 1
        change(times)
      end
      return table.unpack(results, 1, results.n)
    end
  end })
end

describe("a fenced write while others write", function()
  it("looks again as long as no newer fence comes", function()
    run(function(blob, balances)
      assert(blob:put "0")
      local moving = restless(blob, "head", function(left) assert(blob:put("other" .. left)) end, 3)
      assert(fenced.put(OLD, moving, "mine"))
      assert.equal("mine", (blob:get()))
      local e = { partition = "a", row = "1", cents = 1 }
      moving = restless(balances, "get", function(left)
        assert(balances:upsert { partition = "a", row = "1", cents = 100 + left })
      end, 3)
      assert(fenced.merge(OLD, moving, e))
      assert.equal(1, assert(balances:get("a", "1")).cents)
    end)
  end)

  it("is refused when the one who came in between is newer", function()
    run(function(blob, balances)
      local moving = restless(blob, "head", function() assert(fenced.put(NEW, blob, "newer")) end, 1)
      assert.equal("Fenced", select(2, fenced.put(OLD, moving, "mine")).code)
      assert.equal("newer", (blob:get()))
      moving = restless(balances, "get", function()
        assert(fenced.merge(NEW, balances, { partition = "a", row = "1", cents = 2 }))
      end, 1)
      assert.equal("Fenced", select(2, fenced.merge(OLD, moving, { partition = "a", row = "1", cents = 1 })).code)
      assert.equal(2, assert(balances:get("a", "1")).cents)
    end)
  end)

  it("gives up in the end when the target never rests", function()
    run(function(blob)
      assert(blob:put "0")
      local moving = restless(blob, "head", function(left) assert(blob:put("other" .. left)) end, 1000)
      assert.equal("ConditionNotMet", select(2, fenced.put(OLD, moving, "mine")).code)
    end)
  end)
end)

describe("a fenced write with a fault at any attempt", function()
  local KINDS = { "lost-request", "lost-response", "delay", "throttle", "error-after-apply", "late-apply" }

  for _, kind in ipairs(KINDS) do
    it("is done, or refused, but never both: " .. kind, function()
      for at = 1, 12 do
        run(function(blob, balances)
          assert(fenced.put(OLD, blob, "old"))
          assert(fenced.put(NEW, blob, "new"))
          assert.equal("Fenced", select(2, fenced.put(OLD, blob, "late")).code)
          assert.equal("new", (blob:get()))
          assert(fenced.merge(OLD, balances, { partition = "a", row = "1", cents = 1 }))
          assert(fenced.merge(NEW, balances, { partition = "a", row = "1", cents = 2 }))
          assert.equal("Fenced",
            select(2, fenced.merge(OLD, balances, { partition = "a", row = "1", cents = 3 })).code)
          assert.equal(2, assert(balances:get("a", "1")).cents)
        end, { faults = { { kind = kind, ordinal = at, seconds = 2.5 } } })
      end
    end)
  end
end)
