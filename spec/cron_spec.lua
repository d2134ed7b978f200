-- Schedules on the virtual clock, which begins on 2024-01-01: each slot as promised, across both changes of the clock,
-- and when runners are killed, stopped, cut off and started again.

local calendar = require "synod.cron.calendar"
local core = require "synod.core"
local cron = require "synod.cron"
local cancels = require "spec.support.cancels"
local fleet = require "spec.support.fleet"
local log = require "synod.log"
local sh = require "spec.support.sh"
local synod = require "synod"

setup(function() log.configure { level = "error" } end) -- lost leases are told of
teardown(function() log.configure { level = "info" } end)

--- The schedules of instance n.
local function schedules(store, n, more)
  local o = { store = store, instance = { id = "worker_IN_" .. n }, ttl = 6 }
  for name, value in pairs(more or {}) do o[name] = value end
  return cron.new(o)
end

--- Sleeps until an instant of the wall clock.
local function sleep_to(id)
  synod.sleep(calendar.instant(id) / 1000 - synod.time())
end

local function start(jobs)
  return synod.spawn(function() return jobs:run() end)
end

local function stop(jobs, running)
  jobs:drain { timeout = 0 }
  return assert(running:join())
end

--- Instances over one file, each with a store of its own: closing it is a crash, since nothing more is sent.
local function with_file(fn)
  local folder <close> = sh.folder()
  local url = "embedded:" .. folder.path .. "/store.db?relaxed"
  return fleet.run(function(store)
    return fn(store, function(faults) return assert(core.open_store(url, { faults = faults })) end)
  end, { url = url })
end

--- All its tasks end, and none of them can do anything more.
local function crash(own, jobs, running)
  for _, follower in ipairs(jobs.followers) do follower:cancel() end
  for _, job in ipairs(jobs.jobs) do
    for _, slot in next, job.open do slot.task:cancel() end
  end
  running:cancel()
  own:close()
  running:join()
end

local function refusal(fn)
  local ok, err = pcall(fn)
  assert.is_false(ok)
  assert.equal("Usage", err.code)
  assert.is_nil(err.message:find("(Usage)", 1, true), err.message)
  return err.message
end

describe("a schedule", function()
  it("runs each slot once, at its time, on one of many instances", function()
    fleet.run(function(store)
      local ran, all = {}, {}
      for n = 1, 5 do
        local jobs = schedules(store, n)
        jobs:every("*/10 * * * *", "tick", function(slot)
          ran[#ran + 1] = ("%s %g %s"):format(slot.id, synod.now(), slot.name)
          assert.equal(slot.at, synod.time())
        end)
        all[jobs] = start(jobs)
      end
      synod.sleep(1801)
      assert.same({
        "20240101T001000Z 600 tick", "20240101T002000Z 1200 tick", "20240101T003000Z 1800 tick",
      }, ran)
      for jobs, running in pairs(all) do stop(jobs, running) end
    end)
  end)

  it("takes seconds, several schedules, and goes by nominal time whenever it was started", function()
    fleet.run(function(store)
      local ran = {}
      synod.sleep(7.5)
      local jobs = schedules(store, 1)
      jobs:every(5, "five", function(slot) ran[#ran + 1] = slot.id:sub(-3) .. "five" end)
      jobs:every(7.5, "odd", function(slot) ran[#ran + 1] = slot.id:sub(-3) .. "odd" end)
      local running = start(jobs)
      synod.sleep(10)
      table.sort(ran)
      assert.same({ "10Zfive", "15Zfive", "15Zodd" }, ran)
      stop(jobs, running)
    end)
  end)

  it("keeps results, so that a slot can be asked about", function()
    fleet.run(function(store)
      local jobs = schedules(store, 1)
      jobs:every(60, "sum", function(slot) return { fence = slot.fence > 0 } end)
      jobs:every(60, "bad", function() error("no disk", 0) end)
      jobs:every(60, "refuses", function() return nil, "not today" end)
      jobs:every(60, "long", function() synod.sleep(1000) end)
      local other, running = schedules(store, 2), start(jobs)
      assert.equal("none", other:result("sum", "20240101T000100Z").state)
      synod.sleep(61)
      local record = other:result("sum", "20240101T000100Z")
      assert.equal("done", record.state)
      assert.same({ fence = true }, record.result)
      assert.equal("worker_IN_1", record.by)
      assert.same(record, other:result("sum", 1704067260))
      record = other:result("bad", 1704067260)
      assert.equal("failed", record.state)
      assert.equal("no disk", record.error)
      assert.equal("not today", other:result("refuses", 1704067260).error)
      record = other:result("long", 1704067260)
      assert.equal("running", record.state)
      assert.equal("worker_IN_1", record.by)
      stop(jobs, running)
      assert.equal("begun", other:result("long", 1704067260).state)
      assert.equal("none", other:result("sum", 1704067320).state)
    end)
  end)

  it("runs a slot that failed no second time", function()
    fleet.run(function(store)
      local calls, all = 0, {}
      for n = 1, 3 do
        local jobs = schedules(store, n)
        jobs:every("@hourly", "bad", function() calls = calls + 1 error("broken", 0) end)
        all[jobs] = start(jobs)
      end
      synod.sleep(3700)
      assert.equal(1, calls)
      for jobs, running in pairs(all) do stop(jobs, running) end
    end)
  end)

  it("has failed when its function met the end of a task of its own", function()
    fleet.run(function(store)
      local jobs, calls = schedules(store, 1), 0
      jobs:every(60, "work", function()
        calls = calls + 1
        local helper = synod.spawn(function() synod.sleep(1000) end)
        helper:cancel()
        error(select(2, helper:join()), 0)
      end)
      local running = start(jobs)
      synod.sleep(130)
      assert.equal(2, calls)
      local record = assert(jobs:result("work", 1704067260))
      assert.equal("failed", record.state)
      assert.matches("cancelled", record.error, 1, true)
      stop(jobs, running)
    end)
  end)

  it("is not run by who looked before another had finished it, and takes the lease after that", function()
    with_file(function(store, open)
      local ran, all = {}, {}
      local slow = open { { kind = "delay", operation = "GetBlobProperties", ordinal = 1, seconds = 3 } }
      for n, own in ipairs { slow, store } do
        local jobs = schedules(own, n)
        jobs:every("@hourly", "work", function()
          ran[#ran + 1] = n
          synod.sleep(1)
        end)
        all[jobs] = start(jobs)
      end
      synod.sleep(3620)
      assert.same({ 2 }, ran)
      for jobs, running in pairs(all) do stop(jobs, running) end
    end)
  end)

  it("does not wait for a slot that takes longer than the next", function()
    fleet.run(function(store)
      local jobs, began = schedules(store, 1), {}
      jobs:every(10, "slow", function()
        began[#began + 1] = synod.now()
        synod.sleep(25)
      end)
      local running = start(jobs)
      synod.sleep(31)
      assert.same({ 10, 20, 30 }, began)
      stop(jobs, running)
    end)
  end)
end)

describe("across a change of the clock", function()
  --- The slots of a line that three instances run, one of which is killed in the middle of each slot it begins.
  local function run_across(from, to, spec, once)
    local ran, done = {}, {}
    with_file(function(store, open)
      sleep_to(from)
      local all = {}
      local function instance(n, mortal)
        local own = mortal and open() or store
        local jobs, running = schedules(own, n, { zone = "Europe/Berlin", once = once }), nil
        jobs:every(spec, "night", function(slot)
          ran[#ran + 1] = slot.id
          if mortal then
            synod.spawn(function()
              synod.sleep(1)
              crash(own, jobs, running)
            end)
          end
          synod.sleep(2)
          return n
        end)
        running = start(jobs)
        if not mortal then all[jobs] = running end
      end
      instance(1, true)
      synod.sleep(1)
      instance(2)
      instance(3)
      sleep_to(to)
      for jobs, running in pairs(all) do stop(jobs, running) end
      for item in store:container("cron"):list { prefix = "night/", metadata = true } do
        done[#done + 1] = item.name:match("[^/]+$") .. " " .. item.metadata.state
      end
    end)
    return ran, done
  end

  it("forward, a fixed time is run once at the change", function()
    local _, done = run_across("20240330T000000Z", "20240401T120000Z", "30 2 * * *")
    assert.same({ "20240330T013000Z done", "20240331T010000Z done", "20240401T003000Z done" }, done)
  end)

  it("back, a fixed time is run once, the first time", function()
    local _, done = run_across("20241026T000000Z", "20241028T120000Z", "30 2 * * *")
    assert.same({ "20241026T003000Z done", "20241027T003000Z done", "20241028T013000Z done" }, done)
  end)

  it("a line for every hour goes by what the clock shows, and each slot is run", function()
    local _, forward = run_across("20240331T000000Z", "20240331T023500Z", "30 * * * *")
    assert.same({ "20240331T003000Z done", "20240331T013000Z done", "20240331T023000Z done" }, forward)
    local _, back = run_across("20241027T000000Z", "20241027T013500Z", "30 * * * *")
    assert.same({ "20241027T003000Z done", "20241027T013000Z done" }, back)
  end)

  it("what is to run at most once is not begun again when its runner was killed", function()
    local ran, done = run_across("20240331T000000Z", "20240331T023500Z", "30 * * * *", "at-most")
    local times = {}
    for _, id in ipairs(ran) do
      assert.is_nil(times[id])
      times[id] = true
    end
    assert.equal(3, #done)
    for _, line in ipairs(done) do assert.matches("done$", (line:gsub("abandoned$", "done"))) end
  end)
end)

describe("a runner that is killed", function()
  local function killed(once, ttl)
    local began, record = {}, nil
    with_file(function(store, open)
      local own = open()
      local function job(of, n, seconds)
        local jobs = schedules(of, n, { once = once, ttl = ttl })
        jobs:every("@hourly", "work", function()
          began[#began + 1] = ("%d %.0f"):format(n, synod.now() - 3600)
          synod.sleep(seconds)
          return n
        end)
        return jobs, start(jobs)
      end
      local mortal, first = job(own, 1, 1000)
      sleep_to "20240101T005959Z"
      synod.sleep(0.999)
      local second, running
      synod.spawn(function()
        synod.sleep(0.5)
        second, running = job(store, 2, 1) -- it comes a little later
      end)
      synod.sleep(5)
      crash(own, mortal, first)
      synod.sleep(60)
      record = second:result("work", "20240101T010000Z")
      stop(second, running)
    end)
    return began, record
  end

  it("has its slot taken over when its lease is over, where it is at-least once", function()
    for _, ttl in ipairs { 6, 20 } do
      local began, record = killed("at-least", ttl)
      assert.equal(2, #began, ("ttl %g: %s, %s"):format(ttl, record.state, record.by))
      assert.equal("1 0", began[1])
      local at = tonumber(began[2]:match("^2 (%d+)$"))
      assert.is_true(at >= 4 and at <= 5 + ttl * 1.4, began[2])
      assert.equal("done", record.state)
      assert.equal(2, record.result)
    end
  end)

  it("has it abandoned, and not run again, where it is at-most once", function()
    local began, record = killed("at-most", 6)
    assert.same({ "1 0" }, began)
    assert.equal("abandoned", record.state)
    assert.equal("worker_IN_2", record.by)
  end)

  it("has its slot taken over by one too that was stopped when it began, and came too late to begin it", function()
    for _, once in ipairs { "at-least", "at-most" } do
      with_file(function(store, open)
        local own, began = open(), {}
        local function job(of, n, seconds)
          local jobs = schedules(of, n, { once = once, late = 30 })
          jobs:every("@hourly", "work", function()
            began[#began + 1] = n
            synod.sleep(seconds)
          end)
          return jobs, start(jobs)
        end
        local mortal, first = job(own, 1, 1000)
        local sleep, stopped = core.sleep, false
        core.sleep = function(seconds) -- of the second, until its first slot
          local extra = seconds == 60 and not stopped and synod.now() > 3500 and 90 or 0
          stopped = stopped or extra > 0
          return sleep(seconds + extra)
        end
        local _ <close> = setmetatable({}, { __close = function() core.sleep = sleep end })
        synod.sleep(3520)
        local second, running = job(store, 2, 1)
        sleep_to "20240101T010200Z"
        assert.is_true(stopped)
        assert.same({ 1 }, began)
        crash(own, mortal, first)
        synod.sleep(60)
        assert.equal(once == "at-least" and "done" or "abandoned", second:result("work", "20240101T010000Z").state)
        assert.equal(once == "at-least" and 2 or nil, began[2])
        stop(second, running)
      end)
    end
  end)
end)

describe("a runner that is cut off", function()
  it("is stopped before another runs its slot, and cannot write what became of it", function()
    with_file(function(store, open)
      local spans, faults = {}, {}
      for _, operation in ipairs { "LeaseBlob", "SetBlobMetadata", "PutBlob" } do
        for ordinal = 2, 60 do
          faults[#faults + 1] = { kind = "lost-request", operation = operation, ordinal = ordinal }
        end
      end
      local own = open(faults)
      local function job(of, n, seconds)
        local jobs = schedules(of, n, { ttl = 6 })
        jobs:every("@hourly", "work", function()
          local from = synod.now()
          local _ <close> = setmetatable({}, { __close = function() spans[n] = { from, synod.now() } end })
          synod.sleep(seconds)
          return n
        end)
        return jobs, start(jobs)
      end
      local first, one = job(own, 1, 1000)
      sleep_to "20240101T010000Z"
      synod.sleep(0.1)
      local second, two = job(store, 2, 1)
      synod.sleep(60)
      assert.is_table(spans[1], "it was stopped")
      assert.is_true(spans[2][1] >= spans[1][2], ("%g, and the other from %g"):format(spans[1][2], spans[2][1]))
      assert.equal(2, second:result("work", "20240101T010000Z").result)
      stop(second, two)
      crash(own, first, one)
    end)
  end)
end)

describe("what was missed", function()
  --- Runs, stays away for so many hours, and runs again: the slots that are then run, but those on time.
  local function after_absence(hours, more, given)
    local caught = {}
    fleet.run(function(store)
      local away
      local function jobs_of(n)
        local jobs = schedules(store, n)
        local o = { catch_up = more }
        for name, value in pairs(given or {}) do o[name] = value end
        jobs:every("@hourly", "work", function(slot) if away then caught[#caught + 1] = slot.id:sub(5, 11) end end, o)
        return jobs, start(jobs)
      end
      local first, running = jobs_of(1)
      synod.sleep(3601)
      stop(first, running)
      synod.sleep(hours * 3600 + 1800)
      away = true
      local second
      second, running = jobs_of(2)
      synod.sleep(10)
      stop(second, running)
    end)
    return caught
  end

  it("stays so by itself", function() assert.same({}, after_absence(3)) end)

  it("is run when it is not late yet", function()
    assert.same({ "0101T04" }, after_absence(3, "none", { late = 1900 }))
  end)

  it("is all run when none of it is late yet, whatever is caught up with", function()
    for _, catch_up in ipairs { "none", "last", "all" } do
      fleet.run(function(store)
        local ran = {}
        local function jobs_of(n)
          local jobs = schedules(store, n, { catch_up = catch_up })
          jobs:every(10, "work", function(slot) ran[#ran + 1] = slot.id:sub(-7) end)
          return jobs, start(jobs)
        end
        stop(jobs_of(1))
        local first, running = jobs_of(2)
        synod.sleep(11)
        stop(first, running)
        synod.sleep(25)
        local second
        second, running = jobs_of(3)
        synod.sleep(1)
        assert.same({ "000010Z", "000020Z", "000030Z" }, ran, catch_up)
        stop(second, running)
      end)
    end
  end)

  it("is run if it is the last", function() assert.same({ "0101T04" }, after_absence(3, "last")) end)

  it("is all run, from the last that was begun", function()
    assert.same({ "0101T02", "0101T03", "0101T04" }, after_absence(3, "all"))
  end)

  it("is run up to a limit, the latest ones", function()
    assert.same({ "0101T03", "0101T04" }, after_absence(3, "all", { limit = 2 }))
  end)

  it("is nothing before the first run of all", function()
    fleet.run(function(store)
      synod.sleep(10000)
      local calls, jobs = 0, schedules(store, 1, { catch_up = "all" })
      jobs:every("@hourly", "work", function() calls = calls + 1 end)
      local running = start(jobs)
      synod.sleep(10)
      assert.equal(0, calls)
      stop(jobs, running)
    end)
  end)

  it("includes what was begun when everybody died", function()
    with_file(function(store, open)
      local own, ran = open(), {}
      local function job(of, n, seconds)
        local jobs = schedules(of, n)
        jobs:every("@hourly", "work", function(slot)
          ran[#ran + 1] = n .. slot.id:sub(9, 11)
          synod.sleep(seconds)
        end)
        return jobs, start(jobs)
      end
      local mortal, first = job(own, 1, 100)
      synod.sleep(3605)
      crash(own, mortal, first)
      synod.sleep(1000)
      local second, running = job(store, 2, 1)
      synod.sleep(30)
      assert.same({ "1T01", "2T01" }, ran)
      assert.equal("done", second:result("work", "20240101T010000Z").state)
      stop(second, running)
    end)
  end)
end)

describe("draining", function()
  it("ends a run that has not begun yet, and no later one", function()
    fleet.run(function(store)
      local ran, jobs = 0, schedules(store, 1)
      jobs:every(10, "work", function() ran = ran + 1 end)
      local running = start(jobs)
      assert.is_true(jobs:drain {})
      assert.is_true(running:join(1000))
      running = start(jobs)
      synod.sleep(12)
      assert.is_true(jobs:drain { timeout = 5 })
      assert.is_true(running:join())
      assert.equal(1, ran)
    end)
  end)

  it("lets the slots that run end, and begins no more", function()
    fleet.run(function(store)
      local began, ended, jobs = 0, 0, schedules(store, 1)
      jobs:every(10, "work", function()
        began = began + 1
        synod.sleep(5)
        ended = ended + 1
      end)
      local running = start(jobs)
      synod.sleep(12)
      assert.is_true(jobs:drain { timeout = 20 })
      assert.equal(15, synod.now())
      assert.is_true(running:join())
      synod.sleep(30)
      assert.equal(1, began)
      assert.equal(1, ended)
    end)
  end)

  it("stops those that take too long, which others then run at once", function()
    fleet.run(function(store)
      local ran = {}
      local function job(n, seconds)
        local jobs = schedules(store, n)
        jobs:every("@hourly", "work", function()
          ran[#ran + 1] = ("%d %g"):format(n, synod.now() - 3600)
          synod.sleep(seconds)
        end)
        return jobs, start(jobs)
      end
      local first, one = job(1, 1000)
      synod.sleep(3600.5)
      local second, two = job(2, 1)
      synod.sleep(1)
      assert.is_false(first:drain { timeout = 3 })
      assert.is_true(one:join())
      synod.sleep(5)
      assert.same({ "1 0", "2 4.5" }, ran)
      stop(second, two)
    end)
  end)

  it("goes on to its end when the run is cancelled again and again: nothing is left, and it can run again", function()
    fleet.run(function(store)
      local jobs, running = schedules(store, 1), 0
      for _, name in ipairs { "a", "b" } do
        jobs:every(60, name, function()
          running = running + 1
          local _ <close> = setmetatable({}, { __close = function() running = running - 1 end })
          cancels.stubborn()
        end)
      end
      local one = start(jobs)
      synod.sleep(61)
      assert.equal(2, running)
      cancels.often(one)
      assert.equal(0, running)
      local again = start(jobs)
      synod.sleep(1)
      assert.is_true(stop(jobs, again))
    end)
  end)

  it("ends the run also when whoever drains is cancelled", function()
    fleet.run(function(store)
      local jobs, cancelled = schedules(store, 1), nil
      jobs:every(10, "work", function()
        local _ <close> = setmetatable({}, { __close = function() cancelled = true end })
        synod.sleep(1e6)
      end)
      local running = start(jobs)
      synod.sleep(12)
      assert.is_nil(synod.timeout(2, jobs.drain, jobs, { timeout = 100 }))
      assert.is_true(running:join(1))
      assert.is_true(cancelled)
    end)
  end)
end)

describe("old slots", function()
  it("go after seven days, but not the last", function()
    fleet.run(function(store)
      local jobs = schedules(store, 1)
      jobs:every("@daily", "work", function() end)
      jobs:every("0 0 2 1 *", "yearly", function() end)
      local running = start(jobs)
      sleep_to "20240120T120000Z"
      local names = {}
      for item in store:container("cron"):list {} do names[#names + 1] = item.name end
      assert.equal("work/20240113T000000Z", names[1])
      assert.equal("work/20240120T000000Z", names[8])
      assert.same({ "yearly/20240102T000000Z" }, { names[9], names[10] })
      stop(jobs, running)
    end)
  end)
end)

describe("cron", function()
  it("refuses what cannot be meant, at the line that says it", function()
    fleet.run(function(store)
      local jobs = schedules(store, 1)
      jobs:every(60, "a", print)
      assert.matches("^spec/cron_spec.lua:%d+: cron:every: '61 %* %* %* %*': the minute '61' is not 0 to 59",
        refusal(function() jobs:every("61 * * * *", "b", print) end))
      assert.matches("there is a schedule 'a' already", refusal(function() jobs:every(60, "a", print) end), 1, true)
      assert.matches("a function expected", refusal(function() jobs:every(60, "b") end), 1, true)
      assert.matches("a name of letters", refusal(function() jobs:every(60, "a/b", print) end), 1, true)
      assert.matches("install the time zones",
        refusal(function() jobs:every(60, "b", print, { zone = "Europe/Atlantis" }) end), 1, true)
      assert.matches("install the time zones", refusal(function() schedules(store, 1, { zone = "X" }) end), 1, true)
      assert.matches("once = 'twice'", refusal(function() schedules(store, 1, { once = "twice" }) end), 1, true)
      assert.matches("catch_up = 'some'", refusal(function() schedules(store, 1, { catch_up = "some" }) end), 1, true)
      assert.matches("cron.new: ", refusal(function() schedules(store, 1, { ttl = 15.5 }) end), 1, true)
      assert.matches("there is no schedule", refusal(function() schedules(store, 1):run() end), 1, true)
      for _, slot in ipairs { "today", math.huge, 0 / 0 } do
        assert.matches("a slot's id such as", refusal(function() jobs:result("a", slot) end), 1, true)
      end
    end)
  end)

  it("leaves a slot of a newer version alone, and tells it apart", function()
    fleet.run(function(store)
      assert(store:container("cron"):create())
      local blob = store:container("cron"):blob "work/20240101T000100Z"
      assert(blob:put('{"v":2,"state":"done"}'))
      local calls, jobs = 0, schedules(store, 1)
      jobs:every(60, "work", function() calls = calls + 1 end)
      local running = start(jobs)
      synod.sleep(61)
      assert.equal(0, calls)
      assert.equal('{"v":2,"state":"done"}', (blob:get()))
      local _, err = jobs:result("work", "20240101T000100Z")
      assert.equal("NewerVersion", err.code)
      synod.sleep(60)
      assert.equal(1, calls, "the next one is run")
      stop(jobs, running)
    end)
  end)

  it("gives what the store refuses for good", function()
    fleet.run(function(store)
      local jobs = schedules(store, 1)
      jobs:every(60, "work", print)
      local done, err = jobs:run()
      assert.is_nil(done)
      assert.equal("Unauthorized", err.code)
    end, { faults = { { kind = "error-after-apply", operation = "ListBlobs", ordinal = 0, code = "Unauthorized" } } })
  end)
end)
