-- What the benchmark of hand-overs makes of what the processes tell.

local path = package.path

local function turn(who, asked, locked, unlocking)
  return { who = who, asked = asked, locked = locked, unlocking = unlocking }
end

describe("turns at a lock", function()
  local turns

  setup(function()
    package.path = "bench/?.lua;" .. path
    turns = require "harness.turns"
  end)
  teardown(function() package.path = path end)

  it("count from the unlock in one to the lock in the other, whoever tells first", function()
    local took = turns.handovers { turn(1, 1, 2.5, 4), turn(0, 0, 0, 2), turn(0, 3, 4.25, 5) }
    assert.same({ 500, 250 }, took)
  end)

  it("do not count when nobody was waiting, or the same one has it again", function()
    local took = turns.handovers { turn(0, 0, 0, 1), turn(1, 1.5, 2, 3), turn(1, 2, 4, 5), turn(0, 3, 6, 7),
      turn(1, 5, 7.5, 8), turn(0, 7, 8.5, 9) }
    assert.same({ 1000, 500, 500 }, took)
  end)

  it("fail when two had it at once, or nothing can be said", function()
    local function judge(...)
      local told = { ... }
      return function() turns.handovers(told) end
    end
    assert.error_matches(judge(turn(0, 0, 0, 2), turn(1, 0, 1, 3)), "two had the lock at once")
    assert.error_matches(judge(turn(0, 0, 0, 1), turn(0, 1, 1, 2)), "hardly ever")
  end)
end)
