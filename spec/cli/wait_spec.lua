-- synod wait: parties that are real processes; and what any COMMAND gets: signals, the terminal, its exit code.

local sh = require "spec.support.sh"

local EACH = "--parties 2 --round 1"

--- Runs a shell script in a folder with a store of its own.
local function shell(script, options)
  local folder <close> = sh.folder()
  options = options or {}
  options.dir = folder.path
  options.env = options.env or {}
  options.env.XDG_STATE_HOME = folder.path .. "/state"
  return sh.run("unset SYNOD_STORE SYNOD_INSTANCE SYNOD_DEPLOYMENT; " .. script, options)
end

--- A COMMAND behind a barrier of one party: it runs at once.
local ALONE = "$SYNOD wait x --parties 1 --ordinal 0 --round 1 -- "

describe("synod wait", function()
  it("lets nobody pass before all have arrived, and runs COMMAND then", function()
    local out, code = shell([[
      $SYNOD wait start ]] .. EACH .. [[ --ordinal 0 -- sh -c 'echo first $SYNOD_INSTANCE; cat "$DIR/late"' &
      sleep 0.3; echo second >"$DIR/late"
      $SYNOD wait start ]] .. EACH .. [[ --ordinal 1; echo "code $?"
      wait $!
    ]])
    assert.equal(0, code, out)
    assert.truthy(out:find("first wait_IN_0\n.*second\n"), out)
    assert.truthy(out:find("code 0\n", 1, true), out)
  end)

  it("counts a party once, and lets it pass again when the gate is open", function()
    local out = shell([[
      $SYNOD wait a ]] .. EACH .. [[ --ordinal 0 --timeout 0.1; echo "code $?"
      $SYNOD wait a ]] .. EACH .. [[ --ordinal 0 --timeout 0.1; echo "code $?"
      $SYNOD wait a ]] .. EACH .. [[ --ordinal 1 --timeout 0.1; echo "code $?"
      $SYNOD wait a ]] .. EACH .. [[ --ordinal 0 --timeout 0.1; echo "code $?"
    ]])
    assert.same({ "4", "4", "0", "0" }, { out:match("code (%d).*code (%d).*code (%d).*code (%d)") }, out)
    assert.truthy(out:find("1 of 2 had arrived", 1, true), out)
    assert.truthy(out:find("missing: wait_IN_1", 1, true), out)
  end)

  it("tells its own time-out from COMMAND's exit code", function()
    local out = shell([[
      $SYNOD wait a ]] .. EACH .. [[ --ordinal 0 --timeout 0 --timeout-exit 99 -- echo ran; echo "code $?"
      ]] .. ALONE .. [[ sh -c 'exit 4'; echo "code $?"
    ]])
    assert.same({ "99", "4" }, { out:match("code (%d+).*code (%d+)") }, out)
    assert.is_nil(out:find("ran", 1, true))
  end)

  it("meets instances that are numbered by their names, and scripts", function()
    local out, code = shell([[
      echo 'assert(require("synod.barrier").new{name = "m"}:arrive_and_wait{timeout = 10})' >"$DIR/x.lua"
      $SYNOD run --instance web_IN_0 --instances 2 --deployment d "$DIR/x.lua" &
      SYNOD_DEPLOYMENT=d SYNOD_INSTANCE=web_IN_1 SYNOD_INSTANCES=2 $SYNOD wait m --timeout 10 &&
      wait $!
    ]])
    assert.equal(0, code, out)
  end)

  for words, problem in pairs {
    [""] = "NAME is missing",
    ["a b --parties 2 --ordinal 0"] = "'b' is one word too many",
    ["a --ordinal 0"] = "--parties N is missing",
    ["a --parties 2 --round 1"] = "which party this is is not known",
    ["a --parties 2 --ordinal 2 --round 1"] = "2 parties are numbered 0 to 1",
    ["a --parties 2 --ordinal 0"] = "give --round R or --deployment ID",
    ["a/b --parties 2 --ordinal 0 --round 1"] = "NAME 'a/b': letters, digits",
    ["a --parties 2 --ordinal 1 --instance w_IN_0 --round 1"] = "--instance w_IN_0 says 0",
    ["a --parties 2 --ordinal 0 --round 1 --timeout-exit 256"] = "an exit code is at most 255",
  } do
    it("refuses: wait " .. words, function()
      local out, code = shell("$SYNOD wait " .. words)
      assert.equal(2, code, out)
      assert.truthy(out:find(problem, 1, true), out)
    end)
  end
end)

describe("COMMAND", function()
  it("has its exit code passed on, and 128 + n for a signal", function()
    for script, expected in pairs {
      ["exit 0"] = 0, ["exit 3"] = 3, ["exit 255"] = 255, ["kill -TERM $$"] = 143, ["kill -KILL $$"] = 137,
    } do
      local _, code = shell(ALONE .. "sh -c " .. sh.quote(script))
      assert.equal(expected, code, script)
    end
  end)

  it("is said to be missing with 127, and not to be executable with 126", function()
    local out, code = shell(ALONE .. "no-such-command-anywhere")
    assert.equal(127, code)
    assert.truthy(out:find("no-such-command-anywhere: there is no such command", 1, true), out)
    out, code = shell(ALONE .. "/etc/passwd")
    assert.equal(126, code)
    assert.truthy(out:find("/etc/passwd", 1, true), out)
  end)

  it("has our standard streams", function()
    local out = shell("echo in | " .. ALONE .. "sh -c 'cat; echo err >&2' 2>&1")
    assert.equal("in\nerr\n", out)
  end)

  it("gets every signal that we get", function()
    for name, code in pairs { INT = 3, TERM = 3, HUP = 3, QUIT = 3, USR1 = 3, USR2 = 3 } do
      local out, got = shell(ALONE .. [[sh -c 'trap "echo got; exit 3" ]] .. name .. [[;
        echo ready >"$DIR/ready"; while :; do sleep 0.01; done' & synod=$!
        while ! [ -s "$DIR/ready" ]; do sleep 0.01; done
        kill -]] .. name .. [[ $synod; wait $synod]])
      assert.equal(code, got, name .. out)
      assert.truthy(out:find("got\n$"), out) -- the shell may say before it how its sleep ended
    end
  end)

  it("may take its time to end, and gets a signal twice", function()
    local out, code = shell(ALONE .. [[sh -c 'trap "echo got >>\"$DIR/log\"" TERM;
      echo ready >"$DIR/ready"
      while ! [ "$(grep -c . "$DIR/log" 2>/dev/null)" = 2 ]; do sleep 0.01; done; exit 6' & synod=$!
      while ! [ -s "$DIR/ready" ]; do sleep 0.01; done
      kill $synod; while ! [ -s "$DIR/log" ]; do sleep 0.01; done
      kill $synod; wait $synod]])
    assert.equal(6, code, out)
  end)

  it("does not run when a signal ends the waiting", function()
    local out, code = shell([[
      $SYNOD wait a ]] .. EACH .. [[ --ordinal 0 -- echo ran & synod=$!
      sleep 0.3; kill -TERM $synod; wait $synod]])
    assert.equal(143, code, out)
    assert.equal("", out)
  end)

  it("is a group of its own, which ends with us", function()
    local out = shell(ALONE .. [[sh -c 'sleep 300 & echo $$ $! >"$DIR/pids"; wait' & synod=$!
      while ! [ -s "$DIR/pids" ]; do sleep 0.01; done
      kill -KILL $synod; wait $synod 2>/dev/null
      left() { ps -o pid= -p "$(tr ' ' , <"$DIR/pids")"; }
      for i in 1 2 3 4 5 6 7 8 9 10; do left >"$DIR/left" || break; sleep 0.1; done; left]])
    assert.equal("", (out:gsub("Killed%s*", "")))
  end)

  it("does not see the credentials, unless they are passed on", function()
    local env = { AZURE_STORAGE_CONNECTION_STRING = "AccountKey=c2VjcmV0" }
    assert.is_nil(shell(ALONE .. "env", { env = env }):find("c2VjcmV0", 1, true))
    local passing = ALONE:gsub("%-%- $", "--pass-credentials -- ")
    assert.truthy(shell(passing .. "env", { env = env }):find("c2VjcmV0", 1, true))
  end)
end)

describe("COMMAND on a terminal", function()
  --- Runs a shell script on a terminal of its own, and types `keys` into it, each once it shows what the key answers.
  local function terminal(script, keys)
    local folder <close> = sh.folder()
    folder:write("script", script)
    local typed = {}
    for i, key in ipairs(keys) do
      typed[i] = ("until [ -e $DIR/end ] || grep -qs '%s' $DIR/shown; do sleep 0.05; done; sleep 0.2; printf '%s'")
        :format(table.unpack(key))
    end
    return sh.run(([[ (%s; until [ -e $DIR/end ]; do sleep 0.05; done) |
      (timeout -s KILL 40 script -qefc "bash $DIR/script" $DIR/shown; touch $DIR/end)]])
      :format(table.concat(typed, "; ")), { dir = folder.path, env = { XDG_STATE_HOME = folder.path .. "/state" } })
  end

  local READ = ALONE .. "sh -c 'echo ready; read line; echo got $line; ps -o stat= -p $$'"

  it("is in the foreground, and gives the terminal back", function()
    local out = terminal(READ .. "; echo next; read line; echo then $line",
      { { "ready", "one\\n" }, { "next", "two\\n" } })
    assert.truthy(out:find("got one", 1, true), out)
    assert.truthy(out:find("%f[%w][RSD][<N]?s?%+"), out)
    assert.truthy(out:find("then two", 1, true), out)
  end)

  it("is reached by Ctrl-C", function()
    local out = terminal(ALONE .. [[sh -c 'trap "echo int; exit 7" INT; echo ready; sleep 30 & wait'
      echo "code $?"]], { { "ready", "\\003" } })
    assert.truthy(out:find("int", 1, true), out)
    assert.truthy(out:find("code 7", 1, true), out)
  end)

  it("gives the terminal back when we are killed", function()
    local out = terminal([[
      ]] .. ALONE .. [[sh -c 'sleep 0.2; kill -KILL $(ps -o ppid= -p $PPID); sleep 300'
      until ps -o stat= -p $$ | grep -q +; do sleep 0.05; done
      echo next; read line; echo then $line]], { { "next", "two\\n" } })
    assert.truthy(out:find("then two", 1, true), out)
  end)

  it("stops and goes on with our job", function()
    local out = terminal([[
      set -m
      ]] .. ALONE .. [[sh -c 'echo $$ >"$DIR/pid"; echo ready; read line; echo got $line'
      echo "stopped $(jobs | grep -c Stopped) $(ps -o stat= -p "$(cat "$DIR/pid")" | cut -c1)"
      fg >/dev/null; echo "code $?"]], { { "ready", "\\032" }, { "stopped", "one\\n" } })
    assert.truthy(out:find("stopped 1 T", 1, true), out)
    assert.truthy(out:find("got one", 1, true), out)
    assert.truthy(out:find("code 0", 1, true), out)
  end)

  it("goes on when our job cannot be stopped, since nobody could continue it", function()
    local out = terminal(ALONE .. [[sh -c 'echo ready; read line; echo got $line'; echo "code $?"]],
      { { "ready", "\\032" }, { "ready", "one\\n" } })
    assert.truthy(out:find("got one", 1, true), out)
    assert.truthy(out:find("code 0", 1, true), out)
  end)

  it("leaves the terminal to others of a pipeline, and has it when it asks", function()
    local out = terminal(ALONE .. [[sh -c 'echo piped; read line </dev/tty; echo asked $line' | cat]],
      { { "piped", "one\\n" } })
    assert.truthy(out:find("piped", 1, true), out)
    assert.truthy(out:find("asked one", 1, true), out)
  end)
end)
