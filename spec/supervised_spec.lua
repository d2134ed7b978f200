-- Supervised death: what an instance of `synod run -n` held is given back when it has died, and only then.

local core = require "synod.core"
local estate = require "synod.lease.estate"
local lease = require "synod.lease"
local mark = require "synod.lease.mark"
local sh = require "spec.support.sh"

local LEADER = [[
  local synod = require "synod"
  local lease = require "synod.lease"
  local ttl, how = tonumber((...)), (select(2, ...))
  local contender = lease.contender(synod.store:container "locks":blob "election/x", { ttl = ttl, purpose = "x" })
  local held = assert(contender:take { timeout = 60 })
  print("leads", held.fence, synod.time())
  synod.sleep(0.1)
  print("dies", held.fence, synod.time())
  io.stdout:flush()
  synod.exec { "sh", "-c", "kill -" .. how .. " $PPID" }
  synod.sleep(60)
]]

--- Three leaders, one after the other, each of which is killed: fences, and seconds from each death to the next.
local function lead(store, ttl)
  local folder <close> = sh.folder()
  folder:write("x.lua", LEADER)
  local said, code = sh.run(("$SYNOD run -n 3 $DIR/x.lua %d KILL"):format(ttl), {
    dir = folder.path, env = { SYNOD_STORE = store or "embedded:" .. folder.path .. "/s.db" },
  })
  local fences, gaps, died = {}, {}, nil
  for what, fence, at in said:gmatch "(%l+)\t(%d+)\t([%d.]+)" do
    if what == "leads" then fences[#fences + 1] = tonumber(fence) end
    if what == "leads" and died then gaps[#gaps + 1] = tonumber(at) - died end
    died = what == "dies" and tonumber(at) or nil
  end
  return fences, gaps, said, code
end

describe("a leader that is killed", function()
  for _, place in ipairs { "embedded", "Azurite" } do
    for _, ttl in ipairs { 15, 2 } do
      it(("with a lease of %d s on %s is replaced without waiting for its lease"):format(ttl, place), function()
        local store = place == "Azurite" and require("spec.support.azurite").connection_string() or nil
        local fences, gaps, said, code = lead(store, ttl)
        assert.equal(137, code, said)
        assert.equal(3, #fences, said)
        assert.is_true(fences[1] < fences[2] and fences[2] < fences[3], said)
        for _, gap in ipairs(gaps) do assert.is_true(gap < ttl * 0.6, said) end
      end)
    end
  end
end)

describe("a command under a lease", function()
  it("has ended before its holder's death lets another hold", function()
    local folder <close> = sh.folder()
    folder:write("x.lua", [[
      local synod = require "synod"
      local lease = require "synod.lease"
      local contender = lease.contender(synod.store:container "locks":blob "election/x", { ttl = 15, purpose = "x" })
      local held = assert(contender:take { timeout = 60 })
      local log = ...
      local file = assert(io.open(log, "a"))
      file:write("leads ", held.fence, "\n")
      file:close()
      if synod.instance.ordinal < 2 then
        synod.spawn(function()
          synod.sleep(0.3)
          synod.exec { "sh", "-c", "kill -KILL $PPID" }
        end)
        held:guard(function()
          synod.exec { "sh", "-c", "trap '' TERM; while :; do echo works $1 >> $2; done", "sh", held.fence, log }
        end)
      end
    ]])
    local said = sh.run("$SYNOD run -n 3 $DIR/x.lua $DIR/log", {
      dir = folder.path, env = { SYNOD_STORE = "embedded:" .. folder.path .. "/s.db" },
    })
    local leader, changes, works = nil, 0, 0
    for line in io.lines(folder.path .. "/log") do
      local what, fence = line:match "^(%l+) (%d+)$"
      if what == "leads" then
        leader, changes = fence, changes + 1
      elseif what then
        works = works + 1
        assert.equal(leader, fence, said)
      end
    end
    assert.equal(3, changes, said)
    assert.is_true(works > 0)
  end)
end)

describe("the leash of a command under a lease", function()
  it("keeps the descriptor by which a supervisor waits for its end, and so does the anchor", function()
    local folder <close> = sh.folder()
    folder:write("x.lua", [[
      local core = require "synod.core"
      local synod = require "synod"
      local lease = require "synod.lease"
      local held = assert(lease.contender(synod.store:container "locks":blob "x", { ttl = 15, purpose = "x" }):take {})
      held:guard(function()
        local look = synod.exec { "sh", "-c", [=[
          life=$(readlink "/proc/$1/fd/$2")
          has() { ls -l "/proc/$1/fd" | grep -qF -- "-> $life"; }
          begun() { while [ -e "/proc/$1/fd/0" ]; do sleep 0.01; done; } # it has closed what it has no use for
          echo "$life"
          begun $PPID
          for pid in $PPID $(ps -o pid= --ppid $PPID); do
            [ $pid = $$ ] && { has $$ && echo command; continue; }
            begun $pid; has $pid && echo kept
          done
        ]=], "sh", tostring(core.process_id()), os.getenv "SYNOD_LIFE_FD" }
        print(look.stdout .. look.stderr)
      end)
    ]])
    local said, code = sh.run("$SYNOD run -n 1 $DIR/x.lua", {
      dir = folder.path, env = { SYNOD_STORE = "embedded:" .. folder.path .. "/s.db" },
    })
    assert.equal(0, code, said)
    assert.matches("socket:%[%d+%]\n[^\n]*kept\n[^\n]*kept\n", said)
    assert.is_nil(said:find("command", 1, true), said)
  end)
end)

describe("an instance that is stopped", function()
  it("keeps what it holds until its lease runs out", function()
    local folder <close> = sh.folder()
    folder:write("x.lua", LEADER)
    local said = sh.run("timeout -s KILL 6 $SYNOD run -n 2 $DIR/x.lua 15 STOP", {
      dir = folder.path, env = { SYNOD_STORE = "embedded:" .. folder.path .. "/s.db" },
    })
    assert.equal(1, select(2, said:gsub("leads", "")), said)
  end)
end)

describe("what a dead process held", function()
  local function on_memory(fn)
    core.main(function()
      local store <close> = assert(core.open_store "memory:")
      fn(store:container "locks":blob "mutex/x")
    end, { clock = "virtual", seed = 1 })
  end

  local function hold(blob, ttl)
    return assert(lease.contender(blob, { ttl = ttl, instance = { id = "a" } }):try())
  end

  local function entry_of(held, kind)
    return { kind = kind, id = held.id, fence = held.fence }
  end

  it("is free when it was given back: the service's lease", function()
    on_memory(function(blob)
      local held = hold(blob, 15)
      assert.is_true(estate.give_back(blob, entry_of(held, "service")))
      assert.equal("available", blob:head().lease_state)
    end)
  end)

  it("is free when it was given back: a record, whose fence stays", function()
    on_memory(function(blob)
      local held = hold(blob, 2)
      assert.is_true(estate.give_back(blob, entry_of(held, "record")))
      local seen = assert(mark.look(blob))
      assert.is_nil(seen.kind)
      assert.is_nil(seen.holder)
      assert.equal(held.fence, seen.fence)
      assert.is_true(hold(blob, 2).fence > held.fence)
    end)
  end)

  it("is left alone when it has passed on", function()
    for _, kind in ipairs { "service", "record" } do
      on_memory(function(blob)
        local ttl = kind == "service" and 15 or 2
        local first = hold(blob, ttl)
        local entry = entry_of(first, kind)
        assert(first:release())
        local second = hold(blob, ttl)
        assert.is_true(estate.give_back(blob, entry))
        assert.is_true(second:held())
        local seen = assert(mark.look(blob))
        assert.equal(kind, seen.kind)
        assert.equal(second.fence, seen.fence)
      end)
    end
  end)

  it("is no trouble when the blob is gone", function()
    on_memory(function(blob)
      local held = hold(blob, 2)
      local entry = entry_of(held, "record")
      assert(blob:delete())
      assert.is_true(estate.give_back(blob, entry))
      entry.kind, entry.id = "service", "11111111-1111-1111-1111-111111111111"
      assert.is_true(estate.give_back(blob, entry))
    end)
  end)

  it("is resumed without an instant in which another could take it, under a fresh id and a new fence", function()
    on_memory(function(blob)
      local dead = hold(blob, 15)
      local entry = entry_of(dead, "service")
      local held = assert(estate.resume(blob, entry, { ttl = 15, instance = { id = "b" } }))
      assert.is_true(held.fence > entry.fence)
      assert.are_not.equal(entry.id, held.id)
      assert.equal("b", mark.look(blob).holder)
      local renewed, err = lease.of(blob, entry.id):renew()
      assert.is_nil(renewed)
      assert.equal("LeaseIdMismatchWithLeaseOperation", err.code)
      assert.is_nil((lease.contender(blob, { ttl = 15, instance = { id = "c" } }):try()))
      core.sleep(60)
      assert.is_true(held:held())
      assert(held:release())
    end)
  end)

  it("is not resumed when it has passed on", function()
    on_memory(function(blob)
      local entry = entry_of(hold(blob, 15), "service")
      assert.is_true(estate.give_back(blob, entry))
      local other = hold(blob, 15)
      local held, err = estate.resume(blob, entry, { ttl = 15 })
      assert.is_nil(held)
      assert.equal("LeaseAlreadyPresent", err.code)
      assert.is_true(other:held())
    end)
  end)

  it("is resumed as a record by being given back first", function()
    on_memory(function(blob)
      local entry = entry_of(hold(blob, 2), "record")
      local held = assert(estate.resume(blob, entry, { ttl = 2, instance = { id = "b" } }))
      assert.is_true(held.fence > entry.fence)
    end)
  end)
end)
