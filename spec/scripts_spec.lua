-- Each script of scripts/ runs to its end with several instances, on the embedded store and over Azure's.
-- All scripts of a store run at once: they share it as they would in a fleet, and mostly wait. Where the machine was
-- too busy for what a script does in its time, it is run again, alone and for longer.

local azurite = require "spec.support.azurite"
local sh = require "spec.support.sh"

--- What is run, and what its output must show; the arguments keep it short, `longer` when it is run again.
local SCRIPTS = {
  ["startup-barrier"] = { args = "0.3", n = 3, says = { "all 3 are ready", "all 3 are ready", "all 3 are ready" } },
  ["account-balance"] = { args = "11", n = 3, says = { "rolled back; the accounts have 2000 together" } },
  leader = {
    args = "10", longer = "60", n = 3, says = { "I lead, with the fence %d+", "I work by plan 1 of leader_IN_%d" },
  },
  ["new-year-peak"] = { args = "60", n = 3, says = { "60 settled by all" } },
  ["master-and-workers"] = { args = "5", n = 3, says = { "5133 primes up to 50000" } },
  registry = {
    args = "10", longer = "60", n = 3, says = { "up: registry_IN_0 at 127.0.0.1:%d+, registry_IN_1", "says hello" },
  },
  ["jobs-handed-over"] = {
    args = "16", longer = "80", n = 3, says = {
      "IN_2 | job%-%d starts at", "IN_2 | job%-%d is read%-only", "is to come: we get ready",
      "IN_2 | everything is handed over", "3 jobs run here at the end", "3 jobs run here at the end",
    },
  },
  ["small-workers"] = { args = "8", longer = "40", n = 2, says = { "%d+ heartbeats of all instances" } },
  ["nightly-jobs"] = {
    args = "13 4", longer = "65 20", n = 3,
    says = { "the report of", "the last report but one is done, by nightly%-jobs" },
  },
  ["head-node"] = {
    args = "8", n = 4, says = { "%d of the nodes are up, 3 are needed", "post%-work: the sum is 204" },
  },
  ["singleton-scheduler"] = {
    args = "8", longer = "60", n = 3, says = { "scheduling from round 1 on", "round 2, handed out by" },
  },
}

local function names()
  local list = {}
  for name in next, SCRIPTS do list[#list + 1] = name end
  table.sort(list)
  return list
end

--- Runs scripts at once, each in the background with its output and exit code in a file of its name.
---@param list string[]
---@param command fun(name: string): string
---@param store string|nil  nil: an embedded one for them
---@return table<string, string> said  what each said, and its exit code
local function run_together(list, command, store)
  local folder <close> = sh.folder()
  local lines, said = {}, {}
  for _, name in ipairs(list) do
    lines[#lines + 1] = ("(timeout 130 %s > $DIR/%s 2>&1; echo \"exit $?\" >> $DIR/%s) &"):format(
      command(name), name, name)
  end
  lines[#lines + 1] = "wait"
  store = store or "embedded:" .. folder.path .. "/store.db"
  sh.run(table.concat(lines, "\n"), { dir = folder.path, timeout = 150, env = { SYNOD_STORE = store } })
  for _, name in ipairs(list) do said[name] = folder:read(name) end
  return said
end

local function run_scripts(list, place, which)
  local store = place == "Azurite" and azurite.connection_string() or nil
  if store then -- an embedded one is new each time
    sh.run("$SYNOD store ls | sed 1d | cut -d ' ' -f 1 | xargs -r $SYNOD store rm", { env = { SYNOD_STORE = store } })
  end
  return run_together(list, function(name)
    local script = SCRIPTS[name]
    return ("$SYNOD run -n %d scripts/%s.lua %s"):format(script.n, name, script[which] or script.args)
  end, store)
end

local outputs = {} -- by place, then script

--- What a script said, with its exit code.
local function said_by(name, place)
  outputs[place] = outputs[place] or run_scripts(names(), place, "args")
  local said = outputs[place][name]
  local exit, all = said:match "exit (%d+)\n$", true
  for _, what in ipairs(SCRIPTS[name].says) do all = all and said:find(what) ~= nil end
  local too_late = exit == "4" or exit == "0" and not all
  return too_late and run_scripts({ name }, place, "longer")[name] or said
end

for _, place in ipairs { "the embedded store", "Azurite" } do
  describe("on " .. place, function()
    for _, name in ipairs(names()) do
      it(name .. " does what its first lines say", function()
        local said = said_by(name, place)
        assert.equal("0", said:match("exit (%d+)\n$"), said)
        for _, what in ipairs(SCRIPTS[name].says) do assert.matches(what, said) end
      end)
    end
  end)
end

describe("new-year-peak", function()
  it("names in the poison queue what can never be done", function()
    local folder <close> = sh.folder()
    local said, code = sh.run([[
      export SYNOD_STORE=embedded:$DIR/s.db
      $SYNOD run -n 2 scripts/new-year-peak.lua 50 && $SYNOD store queue peek orders-poison
    ]], { dir = folder.path })
    assert.equal(0, code, said)
    assert.matches("order-00050", said, 1, true)
    assert.matches("the amount is negative", said, 1, true)
  end)
end)

describe("account-balance", function()
  it("goes on when an instance was stopped in the middle of a transfer and has lost the lock", function()
    local folder <close> = sh.folder()
    local said, code = sh.run([[
      export SYNOD_STORE=embedded:$DIR/s.db
      $SYNOD run -n 2 scripts/account-balance.lua 3 & all=$!
      until $SYNOD store head accounts/journal >/dev/null 2>&1 || ! kill -0 $all 2>/dev/null; do sleep 0.02; done
      for p in $(pgrep -P $all); do
        tr '\0' '\n' < /proc/$p/environ | grep -qx SYNOD_INSTANCE=account-balance_IN_0 && met=$p
      done
      [ -n "$met" ] && kill -STOP $met && sleep 4 && kill -CONT $met
      wait $all
    ]], { dir = folder.path, timeout = 60 })
    assert.equal(0, code, said)
    assert.matches("IN_0 | .*the accounts have 2000 together", said)
  end)
end)

describe("singleton-scheduler", function()
  it("moves when its instance is stopped, and goes on from where it was", function()
    local folder <close> = sh.folder()
    local said = sh.run([[
      export SYNOD_STORE=embedded:$DIR/s.db
      $SYNOD run -n 3 scripts/singleton-scheduler.lua 8 > $DIR/out 2>&1 &
      all=$!
      until grep -qs 'round 2,' $DIR/out; do sleep 0.1; done
      id=$(sed -n 's/.* round 2, handed out by //p' $DIR/out)
      for p in $(pgrep -P $all); do
        tr '\0' '\n' < /proc/$p/environ | grep -qx "SYNOD_INSTANCE=$id" && kill -TERM $p
      done
      wait $all
      cat $DIR/out
    ]], { dir = folder.path })
    local leaders, rounds, last = {}, {}, 0
    for round, id in said:gmatch "round (%d+), handed out by ([%w_-]+)" do
      leaders[id] = true
      rounds[#rounds + 1] = tonumber(round)
      assert.is_true(tonumber(round) > last, said)
      last = tonumber(round)
    end
    local count = 0
    for _ in next, leaders do count = count + 1 end
    assert.is_true(count >= 2, said)
    assert.matches("the scheduler moves on", said, 1, true)
    assert.is_true(last - #rounds <= count, said) -- one under way at each end of a leadership may not have been told
  end)
end)

describe("scripts/", function()
  it("end with 3, and say what to look at, where there is no store", function()
    local nobody = azurite.string_for(9) -- the port of "discard", where nothing listens
    local function one(name) return "$SYNOD run -n 1 scripts/" .. name .. ".lua" end
    for name, said in pairs(run_together(names(), one, nobody)) do
      local exit = said:match "exit (%d+)\n$" -- 4 where the last attempt of a call met the end of its time
      assert.is_true(exit == "3" or exit == "4", name .. ": " .. said)
      if exit == "3" then assert.matches("refuses connections.*check the address", said) end
    end
  end)

  it("that can do with one instance need no number; that cannot say so", function()
    local alone = { "account-balance", "master-and-workers", "new-year-peak", "jobs-handed-over" }
    local said = run_together(alone, function(name) return "$SYNOD run scripts/" .. name .. ".lua 5" end)
    for name, exit in pairs {
      ["account-balance"] = "0", ["master-and-workers"] = "0", ["new-year-peak"] = "0", ["jobs-handed-over"] = "2",
    } do
      assert.equal(exit, said[name]:match("exit (%d+)\n$"), name .. ": " .. said[name])
    end
    assert.matches("synod run -n 3 jobs-handed-over.lua", said["jobs-handed-over"], 1, true)
  end)

  it("has no script that is not run here, and none shorter than 20 or longer than 80 lines", function()
    local found <close> = assert(io.popen "ls scripts/*.lua")
    for path in found:lines() do
      local name = path:match "([^/]+)%.lua$"
      assert.is_table(SCRIPTS[name], name .. " is run by no spec")
      local lines = 0
      for _ in io.lines(path) do lines = lines + 1 end
      assert.is_true(lines >= 20 and lines <= 80, ("%s has %d lines"):format(name, lines))
    end
  end)
end)
