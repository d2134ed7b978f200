-- What waiting asks of a storage server: candidates, observers, waiters (in a line too) and consumers, with hints
-- and without, beside what `synod explain` says of them.
--
-- All wait at once, for 9 s; SYNOD_ROUNDS (any number) makes it two minutes, and says what was measured. A machine
-- that is too busy to let all begin in time has some more such times.

local azurite = require "spec.support.azurite"
local core = require "synod.core"
local plan = require "synod.plan"
local synod = require "synod"
local witness = require "spec.support.witness"

local SECONDS = witness.measured and 121 or 9
local WARM_S = 3                   -- for the first looks, and for hints to stand
local ENTER_S = 9                  -- ... of those who enter a line one after the other
local MONTH_S = 30 * 24 * 3600
local CHEAP = 100000               -- transactions a month, with hints
local TOLERANCE = witness.measured and 0.15 or 0.4
local HINTS = "127.0.0.1:0"
local POLL_MAX_S = witness.measured and 10 or 2 -- of consumers: their pauses begin short
local COPIES = witness.measured and 4 or 3
local TIMES = 5                    -- until they ask for what is promised
local ALL = 4 + 10 * COPIES        -- who are measured: a pusher too

--- Waits as it is told to, and prints how many requests it made in how many seconds.
local IDLE = [[
local synod = require "synod"
local how, kind, name, warm, seconds, poll_max = ...
local function total()
  local n = 0
  for _, count in next, synod.store:usage() do n = n + count end
  return n
end
local function election() return require("synod.election").new { name = name } end
local function mutex(fair) return require("synod.mutex").new { name = name, fair = fair } end
local function queue(more)
  local max = how == "bare" and tonumber(poll_max) or nil
  return require("synod.workqueue").new { name = name .. (more or ""), poll_min = max and max / 50, poll_max = max }
end
local many = how == "bare" and kind == "consumer" and 12 or 1 -- whose pauses differ much
local kinds = {
  leader = function() election():lead(function() synod.sleep(1000) end) end,
  candidate = function() election():lead(function() error "nobody resigned" end) end,
  observer = function() election():observe(function() end) end,
  holder = function() mutex():with(function() synod.sleep(1000) end) end,
  waiter = function() mutex():lock() end,
  follower = function() mutex(true):lock() end,
  consumer = function()
    for i = 2, many do synod.spawn(function() queue("-" .. i):consume(function() end) end):detach() end
    queue():consume(function() end)
  end,
  pusher = function()
    local q = queue()
    assert(q:push "something")
    synod.sleep(1000)
  end,
}
if kind == "queue" then kind = synod.instance.ordinal == 0 and "pusher" or "consumer" end
synod.spawn(kinds[kind]):detach()
synod.sleep(tonumber(warm))
for time = 1, math.huge do
  local before, began = total(), synod.now()
  synod.sleep(tonumber(seconds))
  print(("measured %d %s %s %d %.3f"):format(time, how, kind, total() - before, (synod.now() - began) * many))
end
]]

--- What the plan says of a policy, transactions a month.
local function planned(policy, options)
  return core.main(function()
    local store <close> = assert(synod.open "memory:")
    local given = { name = "idle", store = store }
    for name, value in pairs(options or {}) do given[name] = value end
    local notes, ok, err = plan.collect(function() require("synod." .. policy).new(given) end)
    assert(ok, err)
    return plan.of(notes[1])
  end)
end

--- "bare candidate" or "hinted candidate" -> transactions a month of one, by what all of that kind have done that time.
local function months(said, time)
  local requests, seconds, found = {}, {}, {}
  for how, kind, n, s in said:gmatch(("measured %d (%%l+) (%%l+) (%%d+) ([%%d.]+)"):format(time)) do
    local key = how .. " " .. kind
    requests[key], seconds[key] = (requests[key] or 0) + tonumber(n), (seconds[key] or 0) + tonumber(s)
  end
  for key, n in pairs(requests) do found[key] = n / seconds[key] * MONTH_S end
  return found
end

local POLICIES = { candidate = "election", observer = "election", waiter = "mutex", consumer = "workqueue" }
local HOLDERS = { leader = "election", holder = "mutex" }

local function plans()
  local list = {}
  for kind, policy in next, HOLDERS do list[kind] = planned(policy).holder end
  for kind, policy in next, POLICIES do
    local polls = kind == "consumer" and { poll_min = POLL_MAX_S / 50, poll_max = POLL_MAX_S } or nil
    list[kind] = planned(policy, polls).waiter
  end
  return list
end

local said_of -- what the plan says of each kind without hints

--- Where few looks are made, one more may fall into the time; two of one in a line.
local function is_cheap(month, more)
  return month < CHEAP + (SECONDS < 60 and (more or 1) * MONTH_S / SECONDS or 0)
end

local function is_as_said(kind, month)
  local said = said_of[kind]
  return math.abs(month - said) <= (HOLDERS[kind] and MONTH_S / SECONDS or said * TOLERANCE)
end

local function are_as_promised(found)
  if not is_cheap(found["hinted follower"], 2) then return false end
  for kind in next, HOLDERS do
    if not is_as_said(kind, found["bare " .. kind]) then return false end
  end
  for kind in next, POLICIES do
    if not (is_cheap(found["hinted " .. kind]) and is_as_said(kind, found["bare " .. kind])) then return false end
  end
  return true
end

--- All wait at once, each for a holder of its own kind.
local function wait_all()
  local url = azurite.connection_string()
  return witness.run(function(w)
    local script = w:script("idle.lua", IDLE)
    local function start(how, kind, name, warm, ...)
      local args = { "run", "--store", url, ... }
      w:start(table.move({ script, how, kind, name, warm, SECONDS, POLL_MAX_S }, 1, 7, #args + 1, args))
    end
    local name = azurite.fresh "idle"
    start("bare", "leader", name, WARM_S + 1)
    start("bare", "holder", name, WARM_S + 1)
    start("hinted", "leader", name .. "h", WARM_S + 1, "--hints", HINTS)
    start("hinted", "holder", name .. "h", WARM_S + 1, "--hints", HINTS)
    core.sleep(1)
    for i = 1, COPIES do
      for _, kind in ipairs { "candidate", "waiter", "observer" } do
        start("bare", kind, name, WARM_S)
        start("hinted", kind, name .. "h", WARM_S, "--hints", HINTS)
      end
      start("hinted", "follower", name .. "h", ENTER_S, "--hints", HINTS)
      start("bare", "consumer", name .. i, WARM_S)
      start("hinted", "queue", name .. "h" .. i, WARM_S, "-n", 2)
    end
    for time = 1, TIMES do
      local stop, line = core.now() + SECONDS + 30, ("measured %d %%l+ %%l+ %%d+"):format(time)
      local function all_said() return select(2, w:output():gsub(line, "")) == ALL end
      while not all_said() and core.now() < stop do core.sleep(0.1) end
      local found = months(w:output(), time)
      if time == TIMES or all_said() and are_as_promised(found) then return found end
    end
  end)
end

describe("waiting for nothing to happen, on a storage server", function()
  local found

  lazy_setup(function()
    said_of = plans()
    found = wait_all()
  end)

  for kind, policy in pairs(POLICIES) do
    it("costs a " .. kind .. " with hints what is promised", function()
      local month = found["hinted " .. kind]
      witness.tell("with hints a %s: %.0f transactions a month (explain: %d)", kind, month, planned(policy).hinted)
      assert.is_true(is_cheap(month), month)
    end)

    it("costs a " .. kind .. " without hints what explain says", function()
      local month = found["bare " .. kind]
      witness.tell("without hints a %s: %.0f transactions a month (explain: %d)", kind, month, said_of[kind])
      assert.is_true(is_as_said(kind, month), ("%.0f, not %d"):format(month, said_of[kind]))
    end)
  end

  it("costs one in the line for a fair lock with hints no more", function()
    local month = found["hinted follower"]
    witness.tell("with hints one in a line: %.0f transactions a month", month)
    assert.is_true(is_cheap(month, 2), month)
  end)

  for kind in pairs(HOLDERS) do
    it("costs a " .. kind .. " what explain says", function()
      local month = found["bare " .. kind]
      witness.tell("a %s: %.0f transactions a month (explain: %d)", kind, month, said_of[kind])
      assert.is_true(is_as_said(kind, month), month)
    end)
  end
end)
