-- An account that nothing but a mutex protects: processes read it, compute and write it, and are killed meanwhile.
--
-- 100 changes by 4 processes; SYNOD_ROUNDS (any number) makes it 1,000 by 8, and says how long locks take.

local core = require "synod.core"
local sh = require "spec.support.sh"
local witness = require "spec.support.witness"

local PROCESSES, CHANGES, KILLS = 4, 100, 3
if witness.measured then PROCESSES, CHANGES, KILLS = 8, 1000, 1000 end

local PAUSES_S = { 0.02, 0.3 } -- between two kills
local HOLDERS = 0.7            -- of those killed are who was seen to enter last
local WHOLE_S = 300

--- Changes the account until it has all of its changes. The file has the balance, and under it each change that is in
--- it: what has become of a change whose process was killed is seen there. A journal says what was begun and what done.
local CHANGE = [[
local core, synod = require "synod.core", require "synod"
local folder, pipe, who, changes = ...
local account = require("synod.mutex").new { name = "account", ttl = 2, instance = { id = who } }
local function open(path, mode)
  local file = assert(io.open(path, mode))
  file:setvbuf "no"
  return file
end
local told, journal, path, n = open(pipe, "w"), open(folder .. "/journal", "a"), folder .. "/balance", 0
local function change(held)
  told:write(("enters account %s %d %d 0 0\n"):format(who, core.process_id(), held.fence))
  local file <close> = assert(io.open(path))
  local balance, others = file:read("n", "a")
  if balance >= tonumber(changes) then return "enough" end
  n = n + 1
  local id = ("%s.%d.%d"):format(who, core.process_id(), n)
  journal:write("begins " .. id .. "\n")
  synod.sleep(0.002)
  local new = open(path .. "." .. who, "w")
  new:write(balance + 1, others, id, "\n")
  new:close()
  assert(os.rename(path .. "." .. who, path))
  synod.sleep(0.002)
  journal:write("did " .. id .. "\n")
  return "done"
end
repeat
  local ok, what, err = pcall(account.with, account, change, { timeout = 120 })
  local lost = not ok and type(what) == "table" and what.code == "LeaseLost" -- on a machine that is too busy
  if not (ok or lost) then error(what, 0) end
until ok and assert(what, err) == "enough"
]]

--- What stands in the files: the balance, how often each change is in it, and which were begun and done.
local function read_all(w)
  local balance = w.folder:read "balance"
  local found = { balance = tonumber(balance:match "^%d+"), times = {}, begun = {}, did = {}, n = 0 }
  for id in balance:gmatch "\n([^\n]+)" do
    found.times[id] = (found.times[id] or 0) + 1
    found.n = found.n + 1
  end
  for what, id in w.folder:read "journal":gmatch "(%l+) ([^\n]+)" do
    found[what == "did" and "did" or "begun"][id] = true
  end
  return found
end

--- Kills one after the other, and starts each again, until a process has found the account complete.
---@return integer kills
local function kill_at_random(w, start, processes)
  local kills, stop = 0, core.now() + WHOLE_S
  while true do
    core.sleep(PAUSES_S[1] + math.random() * (PAUSES_S[2] - PAUSES_S[1]))
    assert(core.now() < stop, w:output())
    local events = w:events "account"
    local who = math.random(#processes)
    if #events > 0 and math.random() < HOLDERS then who = math.tointeger(tonumber(events[#events].who:sub(2))) end
    local how, code = processes[who]:wait(0)
    if how == "exited" then
      assert(code == 0, w:output())
      return kills
    end
    if kills < KILLS then
      processes[who]:kill "KILL"
      processes[who]:wait()
      kills = kills + 1
      processes[who] = start(who)
    end
  end
end

describe("an account that only a mutex protects", function()
  it("loses no change and takes none twice, though those who change it are killed", function()
    witness.run(function(w)
      local script = w:script("change.lua", CHANGE)
      w:script("balance", "0\n")
      w:script("journal", "")
      local function start(who)
        return w:start { "run", "--store", "embedded:" .. w.path .. "/store.db", script, w.path, w.pipe, "p" .. who,
                         CHANGES }
      end
      local processes = {}
      for who = 1, PROCESSES do processes[who] = start(who) end
      local kills = kill_at_random(w, start, processes)
      for _, p in ipairs(processes) do assert.same({ "exited", 0 }, { p:wait(30) }, w:output()) end

      local found = read_all(w)
      assert.equal(CHANGES, found.balance)
      assert.equal(CHANGES, found.n)
      local unknown, of_them = 0, 0
      for id, times in pairs(found.times) do
        assert.equal(1, times, id)
        assert.is_true(found.begun[id], id)
      end
      for id in pairs(found.did) do assert.equal(1, found.times[id], id .. " is lost") end
      for id in pairs(found.begun) do
        if not found.did[id] then
          unknown = unknown + 1
          if found.times[id] then of_them = of_them + 1 end
        end
      end
      local newest = 0
      for _, e in ipairs(w:events "account") do
        assert.is_true(e.fence > newest, "two had the lock at once, or one fence")
        newest = e.fence
      end
      witness.tell("account: %d changes by %d processes, %d killed, %d of them in a change, %d of those in the balance",
        CHANGES, PROCESSES, kills, unknown, of_them)
    end)
  end)
end)

---------------------------------------------------------------- how long locks take

local ALONE = [[
local core = require "synod.core"
local account = require("synod.mutex").new { name = "alone", ttl = tonumber((...)) }
for i = 1, 1100 do
  local began = core.instant()
  assert(account:lock()):unlock()
  if i > 100 then print((core.instant() - began) / 1e6) end
end
]]

--- One after the other has it: who enters and leaves, and when.
local CONTENDED = [[
local core, synod = require "synod.core", require "synod"
local ttl, kind = ...
local account = require("synod.mutex").new { name = "contended", ttl = tonumber(ttl), fair = kind == "fair" }
local said = {}
for _ = 1, 200 do
  local held = assert(account:lock { timeout = 60 })
  local entered = core.instant()
  synod.sleep(0.001)
  said[#said + 1] = ("%d %d %d"):format(held.fence, entered, core.instant())
  held:unlock()
end
print(table.concat(said, "\n"))
]]

if witness.measured then
  describe("a mutex, measured", function()
    local function run(script, url, command)
      local folder <close> = sh.folder()
      folder:write("x.lua", script)
      local said, code = sh.run("$SYNOD run " .. command, {
        dir = folder.path, timeout = 120, env = { SYNOD_STORE = "embedded:" .. folder.path .. "/store.db" .. url },
      })
      assert.equal(0, code, said)
      return said
    end

    for _, url in ipairs { "", "?relaxed" } do
      for _, ttl in ipairs { 2, 15 } do
        it(("alone, ttl %d %s"):format(ttl, url), function()
          local times = {}
          for ms in run(ALONE, url, "$DIR/x.lua " .. ttl):gmatch "[^\n]+" do times[#times + 1] = tonumber(ms) end
          witness.tell("lock and unlock, store.db%s, ttl %d: %s", url, ttl, witness.spread(times, "ms"))
          assert.equal(1000, #times)
        end)

        it(("contended, ttl %d %s"):format(ttl, url), function()
          for _, how in ipairs { "2 plain", "8 plain", "8 fair" } do
            local n, kind = how:match "(%d) (%l+)"
            local turns, waits = {}, {}
            for fence, entered, left in run(CONTENDED, url, ("-n %s $DIR/x.lua %d %s"):format(n, ttl, kind))
              :gmatch "(%d+) (%d+) (%d+)" do
              turns[#turns + 1] = { fence = tonumber(fence), entered = tonumber(entered), left = tonumber(left) }
            end
            table.sort(turns, function(a, b) return a.fence < b.fence end)
            for i = 2, #turns do waits[i - 1] = (turns[i].entered - turns[i - 1].left) / 1e6 end
            witness.tell("hand-over among %s, store.db%s, ttl %d: %s", how, url, ttl, witness.spread(waits, "ms"))
            assert.equal(200 * tonumber(n), #turns)
          end
        end)
      end
    end
  end)
end
