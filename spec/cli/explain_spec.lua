-- synod explain: what the policies of a script promise and cost; nothing of the script is seen outside.

local core = require "synod.core"
local json = require "synod.json"
local plan = require "synod.plan"
local program = require "spec.support.program"

local function explain(lua, ...)
  return program.run({ "explain", ... }, { files = { ["x.lua"] = lua } })
end

describe("synod explain", function()
  it("tells of a service lease what its arithmetic gives", function()
    local r = explain([[require("synod.mutex").new { name = "a", ttl = 15 }]], "x.lua")
    assert.equal(0, r.code, r.err)
    assert.matches("^mutex 'a'\n", r.out)
    assert.matches("lease +15.0 s, the service's", r.out)
    assert.matches("taken over after a crash +in 10.0 s to 16.0 s", r.out) -- renewed each 5 s; a look each second
    assert.matches("else in 1.00 s", r.out)
    -- 15 - 1 % - 2 - 0.1 = 12.75, a second of grace before it
    assert.matches("the body is stopped +11.8 s after the last renewal was sent, clean%-up until 12.8 s", r.out)
    assert.matches("518,400 of who holds, 2,962,286 of each who waits %(86,400 with hints%)", r.out)
  end)

  it("tells of a record", function()
    local r = explain([[require("synod.election").new { name = "a", ttl = 2 }]], "x.lua")
    assert.matches("a record kept by conditional writes", r.out, 1, true)
    assert.matches("in 1.33 s to 2.27 s", r.out, 1, true) -- two looks more, each 2 s / 15
    assert.matches("P = 25 ms", r.out, 1, true)
    assert.matches("R = 0.25 s", r.out, 1, true)
  end)

  it("gives the same as numbers", function()
    local r = explain([[require("synod.mutex").new { name = "a-b", ttl = 15 }]], "--json", "x.lua")
    local found = json.decode(r.out)
    local t = core.main(function() return core.lease_timing(15) end, { clock = "virtual", seed = 1 })
    assert.same({ "mutex", "a-b", "service", 15, t.soft, t.hard, t.slice, 0.01, t.request, 518400 },
      { found.policy, found.name, found.kind, found.ttl, found.soft, found.hard, found.P, found.rho, found.R,
        found.holder_month })
  end)

  --- What it says of the only policy of a script.
  local function figures(lua, policy)
    local r = explain(lua, "--json", "--instance", "w_IN_0", "x.lua")
    local found = json.decode(r.out:match "^[^\n]+")
    assert.equal(policy, found.policy, r.out .. r.err)
    return found
  end

  it("counts a schedule by the slots that are due, and its looks", function()
    local found = figures([[require("synod.cron").new({ ttl = 15 }):every(3600, "a", print)]], "cron")
    assert.same({ 7200, 2880, 2880, 22.5 }, -- 720 slots
      { found.holder_month, found.waiter_month, found.hinted_month, found.takeover_max })
  end)

  it("promises no hints where there are none", function()
    local r = explain([[require("synod.semaphore").new { name = "a", permits = 2 }]], "x.lua")
    assert.matches("2,962,286 of each who waits (2,962,286 with hints)", r.out, 1, true)
    assert.matches("at once on the embedded store; else in 1.00 s", r.out, 1, true)
    assert.matches("among the instances of one synod run at the next look", r.out, 1, true)
  end)

  it("counts both looks of one in a line", function()
    local found = figures([[require("synod.mutex").new { name = "a", fair = true }]], "mutex")
    assert.same({ 5924571, 86400 }, { found.waiter_month, found.hinted_month })
  end)

  it("counts the leases of several stores, and the pauses between tries for them", function()
    local found = figures([[
      local stores = {}
      for i = 1, 3 do stores[i] = require("synod").open "memory:" end
      require("synod.quorum").new({ name = "a" }):lease { stores = stores, timeout = 1 }
    ]], "quorum")
    assert.same({ 3 * 518400, 18 }, { found.holder_month, found.takeover_max })
  end)

  it("adds what a partition lets pass before it takes a record for dead", function()
    local found = figures([[require("synod.partition").new { name = "a", ttl = 2 }]], "partition")
    assert.is_true(math.abs(found.takeover_max - (2 + 0.9 + 3 * 2 / 15)) < 1e-6, found.takeover_max)
  end)

  it("names each policy once, in the order they are made", function()
    local r = explain([[
      for _ = 1, 3 do require("synod.mutex").new { name = "a" } end
      require("synod.election").new { name = "b" }
      require("synod.workqueue").new { name = "jobs" }
    ]], "x.lua")
    local names = {}
    for name in r.out:gmatch "%f[^\n%z]%l+ '([%w-]+)'" do names[#names + 1] = name end
    assert.same({ "a", "b", "jobs" }, names)
  end)

  it("runs an hour in no time, and lets nothing out", function()
    local r = explain([[
      local synod = require "synod"
      print "never seen"
      io.write "never seen"
      io.stdout:write "never seen"
      io.stderr:write "never seen"
      assert(not pcall(io.output, "never"))
      local ran, err = synod.exec { "sh", "-c", "echo never > never" }
      assert(not ran and err.code == "Unsupported")
      assert(not io.open("never", "w"))
      assert(not os.execute "echo never > never")
      assert(not synod.http { url = "http://127.0.0.1:1/" })
      local listener = assert(synod.listen("127.0.0.1:0", print))
      synod.sleep(3000)
      require("synod.mutex").new { name = "late" }
      synod.sleep(1e9)
    ]], "x.lua")
    assert.equal(0, r.code, r.err)
    assert.matches("^mutex 'late'", r.out)
    assert.is_nil((r.out .. r.err):find "never")
    local file = io.open(r.dir and r.dir .. "/never" or "never")
    assert.is_nil(file)
  end)

  it("goes on with the tasks that the script leaves, and ends when the hour is over", function()
    local r = explain([[
      local synod = require "synod"
      synod.spawn(function()
        synod.sleep(3000)
        require("synod.mutex").new { name = "late" }
        while true do pcall(synod.sleep, 1) end
      end)
      synod.every(60, function() end)
    ]], "x.lua")
    assert.equal(0, r.code, r.err)
    assert.matches("^mutex 'late'", r.out)
  end)

  it("refuses settings that are refused where the policy is made, with the arithmetic", function()
    local r = explain([[require("synod.mutex").new { name = "a", ttl = 15, try = 10 }]], "x.lua")
    assert.equal(2, r.code, r.out)
    assert.matches("x.lua:1: mutex.new: ", r.err, 1, true)
    assert.matches("%d", r.err:match "mutex.new: (.*)")
  end)

  it("says so when there is nothing to explain, and when there is no script", function()
    local r = explain("return 1", "x.lua")
    assert.equal(0, r.code)
    assert.matches("made no policy", r.err, 1, true)
    assert.equal(2, explain("return 1").code)
  end)

  it("shows why a script fails that has made no policy", function()
    local r = explain("error 'early'", "x.lua")
    assert.equal(1, r.code)
    assert.matches("early", r.err, 1, true)
  end)
end)

describe("plan", function()
  it("collects only while somebody asks, and what is nested goes to the inner one", function()
    plan.note { policy = "mutex", name = "before" }
    local inner
    local outer, ok, result = plan.collect(function()
      plan.note { policy = "mutex", name = "a" }
      inner = plan.collect(function() plan.note { policy = "mutex", name = "b" } end)
      return 7
    end)
    assert.same({ { policy = "mutex", name = "a" } }, outer)
    assert.same({ { policy = "mutex", name = "b" } }, inner)
    assert.same({ true, 7 }, { ok, result })
  end)
end)
