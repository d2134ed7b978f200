-- The meter: each attempt is counted once, under its operation and what came of it.

local core = require "synod.core"

--- The counts after fn(store, blob) in a store over which these faults hang.
local function counted(faults, fn)
  return core.main(function()
    local store <close> = assert(core.open_store("memory:", { faults = faults }))
    local container = store:container "flags"
    container:create()
    fn(store, container:blob "a", container)
    return store:usage { outcomes = true }, store:usage()
  end, { clock = "virtual", seed = 1 })
end

local ONCE = { if_none_match = "*" }

describe("usage", function()
  -- what is wrong with the first PutBlob, and the outcomes of the three calls
  local CASES = {
    { "done and refused", nil, { done = 1, refused = 2 } },
    { "lost requests", { kind = "lost-request" }, { lost = 1, done = 1, refused = 2 } },
    { "lost answers", { kind = "lost-response" }, { lost = 1, refused = 3 } },
    { "throttling", { kind = "throttle", seconds = 1 }, { throttled = 1, done = 1, refused = 2 } },
  }
  for _, case in ipairs(CASES) do
    it("tells " .. case[1], function()
      local fault = case[2] and { kind = case[2].kind, seconds = case[2].seconds, operation = "PutBlob" }
      local outcomes = counted({ fault }, function(_, blob)
        for _ = 1, 3 do blob:put("x", ONCE) end
      end)
      assert.same(case[3], outcomes.PutBlob)
      assert.same({ done = 1 }, outcomes.CreateContainer)
    end)
  end

  it("is the sum of the outcomes", function()
    local outcomes, totals = counted({ { kind = "throttle", operation = "PutBlob" } }, function(_, blob, container)
      for _ = 1, 3 do blob:put("x", ONCE) end
      blob:get()
      container:blob("b"):get()
      for _ in container:list() do end
    end)
    local sums = {}
    for operation, by_outcome in pairs(outcomes) do
      sums[operation] = 0
      for _, n in pairs(by_outcome) do sums[operation] = sums[operation] + n end
    end
    assert.same(sums, totals)
    assert.same({ done = 1, refused = 1 }, outcomes.GetBlob)
    assert.equal(1, totals.ListBlobs)
  end)

  it("counts an attempt that nobody waits for any more", function()
    local outcomes = counted({ { kind = "lost-request", operation = "GetBlob" } }, function(_, blob)
      local task = core.spawn(function() blob:get() end)
      core.sleep(0.1)
      task:cancel()
      task:join()
      core.sleep(20)
    end)
    assert.same({ lost = 1 }, outcomes.GetBlob)
  end)

  it("begins anew with each store, and takes no other option", function()
    core.main(function()
      local first <close> = core.open_store "memory:"
      first:container("flags"):create()
      local second <close> = core.open_store "memory:"
      assert.same({}, second:usage())
      assert.same({ CreateContainer = 1 }, first:usage())
      assert.error_matches(function() first:usage { outcome = true } end, "unknown option 'outcome'")
    end, { clock = "virtual", seed = 1 })
  end)

  it("is kept of closed stores, by name and without a secret", function()
    local sh = require "spec.support.sh"
    local folder <close> = sh.folder() -- a process of its own: how many stores are kept apart is bounded
    folder:write("two.lua", [[
      local synod, core = require "synod", require "synod.core"
      for _ = 1, 2 do
        local store <close> = assert(synod.open("DefaultEndpointsProtocol=http;AccountName=a;" ..
          "AccountKey=c2VjcmV0LXNlY3JldC1zZWNyZXQ=;BlobEndpoint=http://127.0.0.1:1/spec"))
        store:container("flags"):create { timeout = 1, retries = 0 }
      end
      for name, operations in pairs(core.usage()) do
        for operation, outcomes in pairs(operations) do
          for outcome, n in pairs(outcomes) do print(name, operation, outcome, n) end
        end
      end
    ]])
    local output = sh.run([[$SYNOD run "$DIR/two.lua"]], { dir = folder.path })
    assert.equal("http://127.0.0.1:1/spec\tCreateContainer\tunsent\t2\n", output)
  end)
end)

describe("prices", function()
  package.path = "lua/?.lua;" .. package.path
  local prices = require "cli.prices"

  it("have a class for every operation", function()
    for _, operation in ipairs(core.operations()) do
      local class = prices.class[operation]
      assert.is_truthy(class, operation .. " has no class")
      assert.is_number(prices.example.per_10000[class])
    end
  end)

  it("say where and when they hold", function()
    assert.matches("^%d%d%d%d%-%d%d$", prices.example.date)
    assert.is_string(prices.example.region)
  end)
end)
