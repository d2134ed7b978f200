-- Every single fault at every single attempt of one holder of the service's lease, beside another with a store of its
-- own over the same file: never two holders at a time, nobody believes in a lease that the store does not know of,
-- fences that grow, and everybody gets on.

local contenders = require "spec.support.contenders"
local core = require "synod.core"
local lease = require "synod.lease"
local sh = require "spec.support.sh"
local synod = require "synod"

local BLOB = "mutex/a"
local LATE_S = 16 -- beyond the time of a lease of 15 s
local HOLD_S = 20 -- longer than a lease that nobody renews
local LIFE_S = 45 -- how long the one whose store is faulty tries and holds, in all
local LOOK_S = 0.5
local KINDS = { "lost-request", "lost-response", "delay", "throttle", "error-after-apply" }

local function attempts_of(store)
  local count = 0
  for _, n in next, store:usage() do count = count + n end
  return count
end

--- Whoever believes that it holds must have the lease: looked at by somebody else.
local function witness(blob, believers, faults)
  while true do
    for id, held in next, believers do
      local props = held:held() and blob:head()
      if props and props.lease_state ~= "leased" then
        faults[#faults + 1] = ("%s believes at %.3f, and the lease is %s"):format(id, synod.now(), props.lease_state)
      end
    end
    core.sleep(LOOK_S)
  end
end

--- Takes, holds, releases; again and again until its life is over.
local function faulty_life(blob, log, believers)
  local contender = lease.contender(blob, { ttl = 15, purpose = "spec", instance = { id = "a" } })
  local over = synod.now() + LIFE_S
  while synod.now() < over do
    local held = contender:take { timeout = 5 }
    if held then
      local holding = { id = "a", from = synod.now(), to = math.huge, fence = held.fence }
      log[#log + 1], believers.a = holding, held
      holding.lost = held:wait_lost(HOLD_S)
      if holding.lost then
        assert(not held:held())
        synod.sleep(math.max(0, held:status().hard - synod.now()))
      end
      holding.to = synod.now()
      held:release()
      synod.sleep(0.3)
    end
  end
end

local function meet(url, faults)
  local log, doubts, attempts = { errors = {} }, {}, 0
  core.main(function()
    local mine <close> = assert(core.open_store(url, { faults = faults }))
    local theirs <close> = assert(core.open_store(url))
    local other = theirs:container("locks"):blob(BLOB)
    local believers = {}
    synod.spawn(witness, other, believers, doubts):detach()
    synod.all {
      function() faulty_life(mine:container("locks"):blob(BLOB), log, believers) end,
      function() contenders.contend(other, { id = "b", ttl = 15, hold = 3, rounds = 2, start = 8 }, log) end,
    }
    attempts = attempts_of(mine)
    assert(synod.now() < 120)
  end, { clock = "virtual", seed = 1 })
  return log, doubts, attempts
end

local function count_of(log, id)
  local count = 0
  for _, holding in ipairs(log) do count = count + (holding.id == id and 1 or 0) end
  return count
end

local function check(where, log, doubts)
  assert.same({}, contenders.faults(log), where)
  assert.same({}, doubts, where)
  assert.equal(2, count_of(log, "b"), where)
  assert.is_true(count_of(log, "a") >= 1, where)
end

describe("the service's lease, kept by one whose store is faulty, beside one whose store is not", function()
  local folder, total

  setup(function()
    folder = sh.folder()
  end)

  teardown(function() folder:close() end)

  local worlds = 0
  local function world(faults)
    worlds = worlds + 1
    return meet(("embedded:%s/%d.db?relaxed"):format(folder.path, worlds), faults)
  end

  it("goes from hand to hand without a fault", function()
    local log, doubts, attempts = world()
    check("no fault", log, doubts)
    assert.is_true(count_of(log, "a") >= 2)
    total = attempts
  end)

  for _, kind in ipairs(KINDS) do
    it("is never held twice with a fault at any attempt: " .. kind, function()
      assert.is_true(total > 15)
      for at = 1, total do
        check(kind .. " at " .. at, world { { kind = kind, ordinal = at, seconds = LATE_S } })
      end
    end)
  end

  it("is never held twice when it cannot be renewed from some attempt on, whichever way", function()
    for _, kind in ipairs { "lost-request", "lost-response", "delay", "error-after-apply" } do
      for from = 1, 5 do
        local faults = {}
        for at = from, from + 99 do
          faults[#faults + 1] = { kind = kind, operation = "LeaseBlob", ordinal = at, seconds = LATE_S }
        end
        local log, doubts = world(faults)
        local where = kind .. " from " .. from
        assert.same({}, contenders.faults(log), where)
        assert.same({}, doubts, where)
        assert.equal(2, count_of(log, "b"), where)
      end
    end
  end)
end)
