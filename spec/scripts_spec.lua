-- Each script of scripts/ runs to its end with several instances, on the embedded store and over Azure's.
-- All scripts of a store run at once: they share it as they would in a fleet, and mostly wait.

local azurite = require "spec.support.azurite"
local sh = require "spec.support.sh"

--- What is run, and what its output must show; the arguments keep it short.
local SCRIPTS = {
  ["startup-barrier"] = { args = "0.3", n = 3, says = { "all 3 are ready", "all 3 are ready", "all 3 are ready" } },
  ["account-balance"] = { args = "11", n = 3, says = { "rolled back; the accounts have 2000 together" } },
  leader = { args = "10", n = 3, says = { "I lead, with the fence %d+", "I work by plan 1 of leader_IN_%d" } },
  ["new-year-peak"] = { args = "60", n = 3, says = { "60 settled by all" } },
  ["master-and-workers"] = { args = "5", n = 3, says = { "5133 primes up to 50000" } },
  registry = { args = "10", n = 3, says = { "up: registry_IN_0 at 127.0.0.1:%d+, registry_IN_1", "says hello" } },
  ["jobs-handed-over"] = {
    args = "16", n = 3, says = {
      "IN_2 | job%-%d starts at", "IN_2 | job%-%d is read%-only", "is to come: we get ready",
      "IN_2 | everything is handed over", "3 jobs run here at the end", "3 jobs run here at the end",
    },
  },
  ["small-workers"] = { args = "8", n = 2, says = { "%d+ heartbeats of all instances" } },
  ["nightly-jobs"] = {
    args = "13 4", n = 3, says = { "the report of", "the last report but one is done, by nightly%-jobs" },
  },
  ["head-node"] = {
    args = "8", n = 4, says = { "%d of the nodes are up, 3 are needed", "post%-work: the sum is 204" },
  },
  ["singleton-scheduler"] = { args = "8", n = 3, says = { "scheduling from round 1 on", "round 2, handed out by" } },
}

local function names()
  local list = {}
  for name in next, SCRIPTS do list[#list + 1] = name end
  table.sort(list)
  return list
end

local outputs = {} -- by place, then script: output and exit code

local function run_all(place)
  if outputs[place] then return outputs[place] end
  local folder <close> = sh.folder()
  local lines = {}
  for _, name in ipairs(names()) do
    local script = SCRIPTS[name]
    local command = "(timeout 100 $SYNOD run -n %d scripts/%s.lua %s > $DIR/%s 2>&1; echo \"exit $?\" >> $DIR/%s) &"
    lines[#lines + 1] = command:format(script.n, name, script.args, name, name)
  end
  lines[#lines + 1] = "wait"
  local store = place == "Azurite" and azurite.connection_string() or "embedded:" .. folder.path .. "/store.db"
  sh.run(table.concat(lines, "\n"), { dir = folder.path, timeout = 120, env = { SYNOD_STORE = store } })
  local said = {}
  for _, name in ipairs(names()) do
    local file <close> = assert(io.open(folder.path .. "/" .. name))
    said[name] = file:read "a"
  end
  outputs[place] = said
  return said
end

for _, place in ipairs { "the embedded store", "Azurite" } do
  describe("on " .. place, function()
    for _, name in ipairs(names()) do
      it(name .. " does what its first lines say", function()
        local said = run_all(place)[name]
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
