-- Random schedules: tasks that sleep, wait, wake, spawn, join and cancel each other in every order a seed
-- gives. Whatever happens, no wait ends too early or too late, no wake-up is lost, every clean-up runs, and the
-- same seed gives the same history.

local core = require "synod.core"
local synod = require "synod"

local SEEDS = tonumber(os.getenv("SYNOD_SPEC_SEEDS")) or 200
local TASKS, STEPS, EVENTS = 12, 15, 4

--- A generator of its own, so that a seed means the same everywhere.
local function generator(seed)
  local state = seed * 2654435761 + 1
  return function(n)
    state = (state * 6364136223846793005 + 1442695040888963407)
    return (state >> 33) % n + 1
  end
end

local function schedule(seed)
  local random = generator(seed)
  local history, problems = {}, {}
  local tasks, events, opened, closed = {}, {}, 0, 0

  local function note(...) history[#history + 1] = table.concat({ synod.now(), ... }, " ") end
  local function expect(ok, ...)
    if not ok then problems[#problems + 1] = table.concat({ synod.now(), ... }, " ") end
  end

  local body

  local function start(depth)
    local id = #tasks + 1
    tasks[id] = synod.spawn(body, id, depth)
    return tasks[id]
  end

  local acts = {
    function(id) -- a sleep ends at its instant
      local from, s = synod.now(), random(30) / 10
      synod.sleep(s)
      expect(synod.now() == from + s or math.abs(synod.now() - from - s) < 1e-9, "slept wrong", id)
    end,
    function(id) -- a timed wait ends with the event or at its instant
      local e, from, s = events[random(EVENTS)], synod.now(), random(20) / 10
      local value, err = e:wait(s)
      if value then
        expect(synod.now() - from < s + 1e-9, "woken late", id)
      else
        expect(err.code == "Timeout" and math.abs(synod.now() - from - s) < 1e-9, "timed out wrong", id)
      end
    end,
    function() events[random(EVENTS)]:wait() end,
    function(id) events[random(EVENTS)]:set(id) end,
    function() events[random(EVENTS)]:clear() end,
    function() synod.yield() end,
    function(_, depth) if depth < 3 then start(depth + 1) end end,
    function(id)
      local t = tasks[random(#tasks)]
      if t ~= tasks[id] then
        t:join(random(3))
      end
    end,
    function(id)
      local t = tasks[random(#tasks)]
      t:cancel("by " .. id)
    end,
    function(id)
      local value, err = synod.timeout(random(10) / 10, function()
        synod.sleep(random(20) / 10)
        return "done"
      end)
      expect(value == "done" or err.code == "Timeout", "timeout gave", id)
    end,
    function() -- a wait in a generator
      for i in coroutine.wrap(function() for i = 1, 2 do synod.sleep(0.1) coroutine.yield(i) end end) do
        note("generated", i)
      end
    end,
  }

  function body(id, depth)
    opened = opened + 1
    local _ <close> = setmetatable({}, {
      __close = function(_, err)
        local _ <close> = setmetatable({}, { __close = function() closed = closed + 1 end })
        note("closing", id, err and err.code or "well")
        synod.sleep(0.05)
      end,
    })
    for _ = 1, STEPS do
      local act = random(#acts)
      note(id, "act", act)
      local ok, err = pcall(acts[act], id, depth)
      if not ok then
        note(id, "met", err.code)
        if err.code ~= "Cancelled" then error(err, 0) end
        if random(2) == 1 then error(err, 0) end
      end
    end
  end

  core.main(function()
    for i = 1, EVENTS do events[i] = synod.event() end
    for _ = 1, TASKS do start(1) end
    -- Sets every event now and then: who still waits in the end has lost a wake-up.
    local janitor = synod.every(5, function() for _, e in ipairs(events) do e:set("janitor") end end)
    local i = 1
    while tasks[i] do
      local _, err = tasks[i]:join()
      if tasks[i]:failed() and not (type(err) == "table" and err.code == "Cancelled") then error(err, 0) end
      i = i + 1
    end
    expect(synod.now() < 5 * (STEPS + 2) * #tasks, "took for ever")
    janitor:cancel()
  end, { clock = "virtual", seed = seed })
  return history, problems, opened, closed
end

describe("a random schedule", function()
  it(("keeps its promises, %d seeds"):format(SEEDS), function()
    local longest = 0
    for seed = 1, SEEDS do
      local history, problems, opened, closed = schedule(seed)
      assert.same({}, problems, "seed " .. seed)
      assert.equal(opened, closed, "seed " .. seed .. ": a clean-up did not run")
      longest = math.max(longest, #history)
    end
    assert.is_true(longest > 200, "the schedules did nothing")
  end)

  it("is the same again for the same seed", function()
    for seed = 1, 10 do
      assert.same((schedule(seed)), (schedule(seed)))
    end
    assert.are_not.same((schedule(1)), (schedule(2)))
  end)
end)
