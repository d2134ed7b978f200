-- Who leads after a leader that was killed, told to end, or stopped, and when: real processes, real signals, and a
-- witness (spec/support/witness.lua) that judges whether two ever led at once.
--
-- One round of each kind, all at once. SYNOD_ROUNDS=20 makes 20 of each, one kind after the other, and says what was
-- measured; SYNOD_KINDS is a pattern of kinds then.

local azurite = require "spec.support.azurite"
local core = require "synod.core"
local synod = require "synod"
local witness = require "spec.support.witness"

local WAITING_S = 1.5    -- after the start of a candidate, which then has looked, and has its hints
local APART_S = 0.7      -- between the starts of two rounds
local SLOW_S = 3         -- what the machine may add to what is promised; what it took is measured by hand
local ONLY = os.getenv "SYNOD_KINDS" or ""

--- Leads whenever it can, and tells the witness so again and again: every `pace` seconds, or with 0 without waiting.
local CANDIDATE = [[
local core, synod = require "synod.core", require "synod"
local who, name, ttl, pipe, pace = ...
local out = assert(io.open(pipe, "w"))
out:setvbuf "no"
local id = who == "-" and synod.instance.id or who
local function tell(what, term)
  local s = term.lease:status()
  out:write(("%s %s %s %d %d %.6f %.6f\n"):format(what, name, id, core.process_id(), term.fence, s.confirmed, s.hard))
end
local election = require("synod.election").new { name = name, ttl = tonumber(ttl), instance = { id = id } }
election:lead(function(term)
  tell("leads", term)
  while true do
    if pace == "0" then
      for _ = 1, 300000 do end
    else
      synod.sleep(tonumber(pace))
    end
    tell("acts", term)
  end
end)
]]

---------------------------------------------------------------- a round

local count = 0

local function fresh()
  count = count + 1
  return ("r%d"):format(count)
end

--- An election of its own, with a leader a, and b who waits.
---@param w spec.Witness
---@param s { store: string, ttl: number, hints?: string, pace?: number }
local function elect(w, s)
  local r = { name = fresh(), ttl = s.ttl, w = w }
  local script = w.path .. "/candidate.lua"
  local function start(who)
    local args = { "run", "--store", s.store, script, who, r.name, s.ttl, w.pipe, s.pace or s.ttl / 150 }
    if s.hints then table.move({ "--hints", s.hints }, 1, 2, 2, table.move(args, 2, #args, 4, args)) end
    return w:start(args)
  end
  r.a = start "a"
  w:await(r.name, 30, function(e) return e.what == "leads" end)
  r.b = start "b"
  core.sleep(WAITING_S)
  return r
end

--- The next to lead after those that were heard of.
local function next_leader(r, seconds)
  return r.w:await(r.name, seconds, function(e) return e.what == "leads" and e.fence > r.last.fence end)
end

--- The last thing said, by this one or by anybody.
local function last_of(r, who)
  local events = r.w:events(r.name)
  for i = #events, 1, -1 do
    if not who or events[i].who == who then return events[i] end
  end
end

--- Who leads: a, unless the machine was too slow for it. Waits for an instant at which no renewal is under way, so that
--- what the leader says of its lease is what the store has, unless any instant will do.
---@return string who, string other
local function settle(r, any_time)
  repeat
    core.sleep(r.ttl / 200)
    r.last = last_of(r)
  until any_time or core.now() - r.last.confirmed < r.ttl * 0.3
  return r.last.who, r.last.who == "a" and "b" or "a"
end

local function finish(r)
  core.sleep(r.ttl / 20)
  r.faults, r.late = witness.faults(r.w:events(r.name), r.ttl)
  r.a:kill "KILL"
  r.b:kill "KILL"
  return r
end

--- n rounds, begun one after the other, and all at once from then on.
local function rounds(n, fn)
  local results, lives = {}, {}
  for i = 1, n do
    lives[i] = function()
      synod.sleep((i - 1) * APART_S)
      results[i] = fn(i)
    end
  end
  synod.all(lives)
  return results
end

--- The leader gets a signal at some instant between two renewals; how long it is until the other leads.
local function signalled(signal, s)
  return function(w, n)
    return rounds(n, function()
      local r = elect(w, s(w))
      core.sleep(math.random() * r.ttl / 3)
      local who = settle(r)
      local sent = r[who]:kill(signal)
      local next_one = next_leader(r, r.ttl + 20)
      r.last = last_of(r, who)
      r.since = next_one.at - sent
      r.after = next_one.at - r.last.confirmed - r.ttl
      return finish(r)
    end)
  end
end

--- Whether a process has a lock of a whole file, as who writes to an embedded store does.
local function holds_lock(pid)
  local file <close> = assert(io.open "/proc/locks")
  return file:read("a"):find((" FLOCK [^\n]* %d "):format(pid)) ~= nil
end

--- The leader is stopped for twice its lease, while it waits or computes. One that writes to a file just then keeps the
--- other from writing until it goes on (docs/reference/embedded-store.md): that is counted, not a fault.
local function stopped(s)
  return function(w, n)
    return rounds(n, function(i)
      local settings = s(w)
      settings.pace = i % 2 == 0 and 0 or nil
      local r = elect(w, settings)
      core.sleep(math.random() * r.ttl / 3)
      r.any_time = i % 4 == 0
      local who, other = settle(r, r.any_time)
      local sent = r[who]:kill "STOP"
      local led, next_one = pcall(next_leader, r, r.ttl * 2)
      if not led then
        assert(holds_lock(r[who].pid), next_one)
        r.held_up = true
        r[who]:kill "CONT"
        next_one = next_leader(r, r.ttl + 20)
      end
      r.since = next_one.at - sent
      if r.held_up then return finish(r) end
      r.last = last_of(r, who)
      r.after = next_one.at - r.last.confirmed - r.ttl
      core.sleep(math.max(0, 2 * r.ttl - r.since))
      local acted = last_of(r, other).at
      r[who]:kill "CONT"
      core.sleep(0.5)
      r.goes_on = last_of(r, other).at > acted
      return finish(r)
    end)
  end
end

--- The server is stopped for one and a half leases.
local function server_stopped(ttl)
  return function(w, n)
    local server = w:start_program("node", { "spec/support/azurite.js" })
    local function port(service)
      local pattern = service .. " service is successfully listening at http://[%w.]+:(%d+)"
      while not w:output():match(pattern) do core.sleep(0.05) end
      return tonumber(w:output():match(pattern))
    end
    local store = azurite.string_for { Blob = port "Blob", Queue = port "Queue", Table = port "Table" }
    local ready, stop, stop_at = 0, core.event(), nil
    local results = rounds(n, function(i)
      local r = elect(w, { store = store, ttl = ttl, pace = i % 5 == 0 and 0 or nil })
      ready = ready + 1
      if ready == n then
        core.sleep(math.random() * ttl / 3)
        stop_at = server:kill "STOP"
        stop:set()
      end
      stop:wait()
      r.last = last_of(r)
      core.sleep(1.5 * ttl)
      if i == n then server:kill "CONT" end
      r.since = next_leader(r, 2 * ttl + 20).at - stop_at
      return finish(r)
    end)
    server:kill "KILL"
    return results
  end
end

--- Three instances of one run: the leader is killed, and then the next.
local function supervised(s)
  return function(w, n)
    return rounds(n, function()
      local settings = s(w)
      local r = { name = fresh(), ttl = settings.ttl, w = w, sinces = {}, last = { fence = 0 } }
      r.a = w:start { "run", "-n", 3, "--store", settings.store, w.path .. "/candidate.lua", "-", r.name,
                      settings.ttl, w.pipe, 0.05 }
      r.b = r.a
      r.last = next_leader(r, 30)
      core.sleep(WAITING_S)
      for _ = 1, 2 do
        core.sleep(math.random() * 0.5)
        local sent = core.now()
        synod.exec { "kill", "-KILL", tostring(r.last.pid) }
        r.last = next_leader(r, 30)
        r.sinces[#r.sinces + 1] = r.last.at - sent
        core.sleep(0.3)
      end
      r.faults, r.late = witness.faults(w:events(r.name), r.ttl)
      r.a:kill "TERM"
      r.a:wait(20)
      return r
    end)
  end
end

---------------------------------------------------------------- the kinds

local function on_azurite(ttl, hints)
  return function() return { store = azurite.connection_string(), ttl = ttl, hints = hints } end
end

local function on_file(ttl)
  return function(w)
    count = count + 1 -- a file of its own: who is stopped while it writes holds nobody else up
    return { store = ("embedded:%s/store%d.db"):format(w.path, count), ttl = ttl }
  end
end

local HINTS = "127.0.0.1:0"

local KINDS = {
  { "killed, with a lease of 15 s on Azurite", signalled("KILL", on_azurite(15)) },
  { "killed, with a record of 2 s on Azurite", signalled("KILL", on_azurite(2)) },
  { "killed, with a record of 2 s in a file", signalled("KILL", on_file(2)) },
  { "told to end, on Azurite with hints", signalled("TERM", on_azurite(15, HINTS)) },
  { "told to end, on Azurite without hints", signalled("TERM", on_azurite(15)) },
  { "supervised and killed, with a lease of 15 s on Azurite", supervised(on_azurite(15)) },
  { "supervised and killed, with a lease of 15 s in a file", supervised(on_file(15)) },
  { "stopped, with a record of 2 s on Azurite", stopped(on_azurite(2)) },
  { "stopped, with a record of 2 s in a file", stopped(on_file(2)) },
  { "stopped, with a lease of 15 s on Azurite", stopped(on_azurite(15)), long = true },
  { "stopped, with a lease of 15 s in a file", stopped(on_file(15)), long = true },
  { "cut off by a stopped server, with a record of 2 s", server_stopped(2) },
  { "cut off by a stopped server, with a lease of 15 s", server_stopped(15), long = true },
}

local function tell(kind, results)
  local since, after, late, whole = {}, {}, {}, 0
  for _, r in ipairs(results) do
    table.move(r.sinces or { r.since }, 1, #(r.sinces or { r.since }), #since + 1, since)
    after[#after + 1] = r.after
    late[#late + 1] = -r.late
    if r.held_up then witness.tell("%s: one was stopped while it wrote to the file", kind) end
    if #r.faults == 0 then whole = whole + 1 end
  end
  witness.tell("%s: %d of %d without a fault; to the next leader %s; after the lease's end %s; last act %s before the "
    .. "hard stop", kind, whole, #results, witness.spread(since, "ms", 1000), witness.spread(after, "ms", 1000),
    witness.spread(late, "ms", 1000))
end

--- Whether this kind is run: those that take long only where they are asked for.
local function wanted(kind)
  return kind[1]:find(ONLY) and (witness.measured or not kind.long)
end

local function run_all()
  azurite.connection_string() -- which starts it, once
  local found = {}
  witness.run(function(w)
    w:script("candidate.lua", CANDIDATE)
    local lives = {}
    for _, kind in ipairs(KINDS) do
      if wanted(kind) then
        lives[#lives + 1] = function()
          found[kind[1]] = kind[2](w, witness.rounds(1))
          tell(kind[1], found[kind[1]])
        end
      end
    end
    if not witness.measured then return synod.all(lives) end
    for _, life in ipairs(lives) do life() end
  end)
  return found
end

describe("after a leader that was", function()
  local found

  lazy_setup(function() found = run_all() end)

  --- Every round is without a fault, and what `check` says of it.
  local function each(kind, check)
    it(kind[1], function()
      local results = found[kind[1]]
      for _, r in ipairs(results) do
        assert.same({}, r.faults)
        check(r)
      end
    end)
  end

  local function by_lease(r, more)
    more = more or 0
    assert.is_true(r.after >= 0, ("%.3f s too early"):format(-r.after))
    assert.is_true(r.after < r.ttl / 15 + SLOW_S + more, ("%.3f s after the end"):format(r.after))
  end

  local function at_once(r)
    for _, since in ipairs(r.sinces or { r.since }) do assert.is_true(since < SLOW_S, since) end
  end

  for _, kind in ipairs(KINDS) do
    local check = by_lease
    if kind[1]:find "told to end" or kind[1]:find "supervised" then check = at_once end
    if kind[1]:find "^stopped" then
      check = function(r)
        if r.held_up then return end
        by_lease(r, r.any_time and r.ttl / 3 or 0) -- the last renewal may be one that a was stopped in
        assert.is_true(r.goes_on, "who had taken over leads no more")
      end
    end
    if kind[1]:find "server" then check = function(r) assert.is_true(r.since > r.ttl * 1.5) end end
    if wanted(kind) then each(kind, check) end
  end
end)

describe("the witness", function()
  it("finds an older fence after a newer one, and what is done after the end of a lease", function()
    local function said(who, fence, at, confirmed)
      return { who = who, what = "acts", fence = fence, at = at, confirmed = confirmed, hard = confirmed + 1.7 }
    end
    assert.same({}, (witness.faults({ said("a", 1, 1, 0), said("b", 2, 2.5, 2), said("b", 2, 4, 2.1) }, 2)))
    local faults, late = witness.faults({ said("a", 1, 1, 0), said("b", 2, 1.1, 1), said("a", 1, 2.1, 0) }, 2)
    assert.equal(2, #faults)
    assert.near(0.4, late, 1e-9)
  end)
end)
