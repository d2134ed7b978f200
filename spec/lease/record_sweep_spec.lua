-- Every single fault at every single attempt of instances that contend for one blob: never two holders at a time,
-- fences that grow, and everybody gets on. So it is shown, not drawn: no one fault breaks a record lease.

local contenders = require "spec.support.contenders"
local fleet = require "spec.support.fleet"

local BLOB = "mutex/a"
local LATE_S = 2.5 -- beyond the time of a record of 2 s

--- Each kind of world, and the time by which all must have held and released in spite of one fault or two.
local WORLDS = {
  { what = "records", within = 30, list = {
    { id = "a", ttl = 2, hold = 1.5, rounds = 2 }, { id = "b", ttl = 2, hold = 0.5, rounds = 2 },
    { id = "c", ttl = 2, hold = 0.1, rounds = 1, start = 0.2 },
  } },
  { what = "records of different times", within = 40, list = {
    { id = "a", ttl = 6, hold = 3, rounds = 2 }, { id = "b", ttl = 0.5, hold = 0.5, rounds = 2 },
  } },
  { what = "a record and a lease of the service", within = 75, list = {
    { id = "a", ttl = 2, hold = 1.5, rounds = 2 }, { id = "b", ttl = 15, hold = 6, rounds = 2 },
  } },
}

local KINDS = { "lost-request", "lost-response", "delay", "throttle", "error-after-apply", "late-apply" }

local function meet(world, faults)
  local log, attempts
  fleet.run(function(store)
    log = contenders.run(store:container("locks"):blob(BLOB), world.list)
    attempts = 0
    for _, count in next, store:usage() do attempts = attempts + count end
  end, { faults = faults })
  return log, attempts
end

local function rounds_of(world)
  local rounds = 0
  for _, who in ipairs(world.list) do rounds = rounds + who.rounds end
  return rounds
end

local function check(world, log, where)
  assert.same({}, contenders.faults(log), where)
  assert.equal(rounds_of(world), #log, where)
  assert.is_true(log.ended <= world.within, ("%s: ended at %.3f"):format(where, log.ended))
end

for _, world in ipairs(WORLDS) do
  describe(world.what .. " of contenders for one blob", function()
    local log, total = meet(world)

    it("pass on without a fault", function()
      check(world, log, "no fault")
      assert.is_true(total > 20)
    end)

    for _, seconds in ipairs { 0.2, 0.7, 1.7, 7 } do
      it(("survive any request that arrives %g s late, when nobody waits for it"):format(seconds), function()
        for at = 1, total do
          check(world, (meet(world, { { kind = "late-apply", ordinal = at, seconds = seconds } })), "late at " .. at)
        end
      end)
    end

    for _, kind in ipairs(KINDS) do
      it("survive a fault at any attempt: " .. kind, function()
        for at = 1, total do
          check(world, (meet(world, { { kind = kind, ordinal = at, seconds = LATE_S } })), kind .. " at " .. at)
        end
      end)

      it("survive two faults in a row: " .. kind, function()
        for at = 1, total do
          check(world, (meet(world, { { kind = kind, ordinal = at, seconds = LATE_S },
            { kind = KINDS[at % #KINDS + 1], ordinal = at + 1, seconds = LATE_S } })), kind .. " and more at " .. at)
        end
      end)
    end
  end)
end
