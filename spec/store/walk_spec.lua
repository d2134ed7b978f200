-- A seeded random walk over all calls, by three competing clients, on two stores at once: every answer is the same. The
-- walk beside a real server is spec/azure/walk_spec.lua.
--
--   SYNOD_WALK_CALLS=5000000 SYNOD_WALK_SEED=7 lua5.4 /usr/bin/busted spec/store/walk_spec.lua      a nightly size

local core = require "synod.core"
local sh = require "spec.support.sh"
local walk = require "spec.support.walk"

local CALLS = tonumber(os.getenv "SYNOD_WALK_CALLS") or (os.getenv "SYNOD_ASAN" and 10000 or 100000)
local SEED = tonumber(os.getenv "SYNOD_WALK_SEED") or 1
local EPISODE = 500 -- calls on the same stores

--- What a walk of any length comes to.
local REACHED = {
  "BlobAlreadyExists", "ConditionNotMet", "AppendPositionConditionNotMet", "NotModified", "InvalidRange",
  "LeaseAlreadyPresent", "LeaseIdMissing", "LeaseIdMismatchWithBlobOperation", "LeaseIdMismatchWithContainerOperation",
  "LeaseIdMismatchWithLeaseOperation", "LeaseNotPresentWithLeaseOperation", "LeaseIsBreakingAndCannotBeAcquired",
  "LeaseIsBreakingAndCannotBeChanged", "LeaseIsBrokenAndCannotBeRenewed", "PopReceiptMismatch", "MessageNotFound",
  "SourceConditionNotMet", "InvalidBlobType",
  "QueueAlreadyExists", "EntityAlreadyExists", "ResourceNotFound", "UpdateConditionNotSatisfied", "InvalidDuplicateRow",
}

--- Opens the same store as often as there are clients; a store in memory has one for all.
local function opener(url)
  return function()
    if url == "memory:" then
      local store = assert(core.open_store(url))
      return { store, store, store }
    end
    local target, stores = url(), {}
    for i = 1, 3 do stores[i] = assert(core.open_store(target)) end
    return stores
  end
end

--- A pair of the store in memory and one in a new file of the folder each time.
local function fast_pair(folder)
  local count = 0
  return {
    { name = "memory:", open = opener "memory:" },
    { name = "embedded:", open = opener(function()
      os.execute("rm -f " .. folder.path .. "/*")
      count = count + 1
      return ("embedded:%s/%d.db?relaxed"):format(folder.path, count)
    end) },
  }
end

--- Walks so many calls; gives how many it made.
local function walk_on(pair, count)
  local made, seed = 0, SEED
  while made < count do
    local fault, n = walk.random(pair, { seed = seed, calls = EPISODE })
    if fault then error(("the walk of seed %d\n%s"):format(seed, fault.script), 0) end
    made, seed = made + n, seed + 1
  end
  return made
end

describe("a random walk over all calls", function()
  local folder
  lazy_setup(function() folder = sh.folder() end)
  lazy_teardown(function() folder:close() end)

  it("has the same answers in memory and in a file", function()
    local pair, seen = fast_pair(folder), {}
    pair[2].after = function(_, outcome)
      if outcome[1] and outcome[2] == nil then seen[outcome[3].code] = true end
    end
    assert.is_true(walk_on(pair, CALLS) >= CALLS)
    for _, code in ipairs(REACHED) do assert(seen[code], "the walk has not come to " .. code) end
  end)

  for name, fault in pairs {
    ["forgets the body of an update"] = { before = function(call, list)
      if call.on.what == "message" and call.method == "update" then list[1].body = nil end
    end },
    ["takes any version of an entity"] = { before = function(call, list)
      if call.on[1] == "table" and call.method == "merge" then list[2].if_match = "*" end
    end },
    ["does not see that a lease has expired"] = { after = function(call, outcome)
      local props = call.method == "head" and outcome[2]
      if props and props.lease_state == "expired" then props.lease_state = "leased" end
    end },
    ["counts a message too many"] = { after = function(call, outcome)
      if call.method == "count" and outcome[2] == 0 then outcome[2] = 1 end
    end },
  } do
    it("finds a store that " .. name .. ", and shows it in few calls", function()
      local pair = {
        { name = "memory:", open = opener "memory:" },
        { name = "faulty:", open = opener "memory:", before = fault.before, after = fault.after },
      }
      local found
      for seed = 1, 20 do
        found = found or walk.random(pair, { seed = seed, calls = EPISODE })
      end
      assert(found, "not found")
      assert.is_true(#found.calls <= 5, found.script)
      -- the script runs, on a store where all is well; here it need not wait
      folder:write("shown.lua", (found.script:gsub("synod.sleep%b()", "")))
      local output, code = sh.run('$SYNOD run "$DIR/shown.lua" "embedded:$DIR/shown.db"', { dir = folder.path })
      assert.equal(0, code, output .. found.script)
      assert.matches("^1\t", output)
    end)
  end
end)
