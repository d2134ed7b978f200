-- What stands on a held blob: each case is metadata as they may be found, and what is made of them.

local core = require "synod.core"
local mark = require "synod.lease.mark"

local CASES = {
  { what = "nothing", metadata = {}, gives = {} },
  { what = "a service lease's",
    metadata = { synod_v = "1", synod_fence = "1704067200000", synod_holder = "Worker_IN_2", synod_host = "box",
                 synod_pid = "71", synod_since = "2024-01-01T00:00:00.000Z", synod_purpose = "mutex" },
    gives = { fence = 1704067200000, holder = "Worker_IN_2", host = "box", pid = 71,
              since = "2024-01-01T00:00:00.000Z", purpose = "mutex" } },
  { what = "a record's", metadata = { synod_v = "1", synod_fence = "7", synod_ttl_ms = "2000", synod_beat = "3" },
    gives = { fence = 7, ttl = 2.0, beat = 3 } },
  { what = "a hand-over's", metadata = { synod_fence = "7", synod_next = "Worker_IN_3" },
    gives = { fence = 7, next = "Worker_IN_3" } },
  { what = "names in any case, as headers come", metadata = { Synod_Fence = "8", SYNOD_HOLDER = "a" },
    gives = { fence = 8, holder = "a" } },
  { what = "what is percent-encoded", metadata = { synod_holder = "J%C3%BCrgen%20%26%20Co%25" },
    gives = { holder = "Jürgen & Co%" } },
  { what = "a percent sign that begins no code", metadata = { synod_holder = "100% of%4" },
    gives = { holder = "100% of%4" } },
  { what = "control characters, which must not reach a terminal", metadata = { synod_holder = "a%1B%5B2Jb%0A%7F" },
    gives = { holder = "a?[2Jb??" } },
  { what = "a text that is too long, cut between characters",
    metadata = { synod_holder = ("x"):rep(254) .. "%C3%BC" }, gives = { holder = ("x"):rep(254) } },
  { what = "other people's", metadata = { colour = "red", synod_writes = "7" }, gives = {} },
  -- when in doubt a record is there, and for long
  { what = "a record's time that is no number", metadata = { synod_ttl_ms = "soon" }, gives = { ttl = 60.0 } },
  { what = "a record's time that nobody may ask for", metadata = { synod_ttl_ms = "600000" }, gives = { ttl = 60.0 } },
  { what = "a negative record's time", metadata = { synod_ttl_ms = "-1" }, gives = { ttl = 60.0 } },
  { what = "a pid and a beat that are none", metadata = { synod_pid = "1x", synod_beat = "" }, gives = {} },
  { what = "a newer version", metadata = { synod_v = "2", synod_fence = "7" }, code = "NewerVersion" },
  { what = "a version that is no number", metadata = { synod_v = "1.1" }, code = "NewerVersion" },
  { what = "a fence that is no number", metadata = { synod_fence = "high" }, code = "FenceRegressed" },
  { what = "an empty fence", metadata = { synod_fence = "" }, code = "FenceRegressed" },
  { what = "a fence beyond any number", metadata = { synod_fence = ("9"):rep(19) }, code = "FenceRegressed" },
}

describe("the metadata of a held blob", function()
  for _, case in ipairs(CASES) do
    it("are read: " .. case.what, function()
      core.main(function()
        local read, err = core.mark_read(case.metadata)
        if case.code then
          assert.is_nil(read)
          assert.equal(case.code, err.code)
        else
          assert.same(case.gives, read)
        end
      end, { clock = "virtual", seed = 1 })
    end)
  end

  it("are a table of strings", function()
    core.main(function()
      assert.has_error(function() core.mark_read { { "x" } } end)
      assert.has_error(function() core.mark_read(7) end)
    end, { clock = "virtual", seed = 1 })
  end)
end)

describe("a look at a blob", function()
  local function with_blob(metadata, fn)
    core.main(function()
      local store <close> = assert(core.open_store "memory:")
      local container = store:container "locks"
      assert(container:create())
      local blob = container:blob "mutex/a"
      if metadata then assert(blob:put("", { metadata = metadata })) end
      fn(blob)
    end, { clock = "virtual", seed = 1 })
  end

  it("tells the kind of lease by the store's word and the record", function()
    with_blob({ synod_v = "1", synod_fence = "7", synod_holder = "a" }, function(blob)
      local seen = assert(mark.look(blob))
      assert.is_nil(seen.kind)
      assert.equal("a", seen.holder)
      assert.is_string(seen.etag)
      local lease <close> = assert(blob:lease { duration = 15 })
      assert.is_table(lease and assert(mark.look(blob)))
      assert.equal("service", assert(mark.look(blob)).kind)
    end)
    with_blob({ synod_v = "1", synod_fence = "7", synod_ttl_ms = "2000", synod_beat = "1" }, function(blob)
      assert.equal("record", assert(mark.look(blob)).kind)
    end)
  end)

  it("says what the store refuses, and what it cannot read", function()
    with_blob(nil, function(blob)
      assert.equal("BlobNotFound", select(2, mark.look(blob)).code)
    end)
    with_blob({ synod_v = "2" }, function(blob)
      local seen, err = mark.look(blob)
      assert.is_nil(seen)
      assert.equal("NewerVersion", err.code)
      assert.matches("mutex/a", tostring(err), 1, true)
      assert.matches("synod_v 2", tostring(err), 1, true)
    end)
  end)
end)
