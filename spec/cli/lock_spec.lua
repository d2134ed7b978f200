-- synod lock and synod lead: real processes, a real clock. SYNOD_LOCK_ROUNDS: how often the holder is killed.

local program = require "spec.support.program"
local sh = require "spec.support.sh"

local ROUNDS = tonumber(os.getenv "SYNOD_LOCK_ROUNDS") or 1

--- Waits in a shell script until a file has something in it.
local WAIT = "await() { while ! [ -s \"$DIR/$1\" ]; do sleep 0.01; done; }; "

--- Runs a shell script in a folder with a store of its own.
local function shell(script, options)
  local folder <close> = sh.folder()
  options = options or {}
  options.dir = folder.path
  options.env = options.env or {}
  options.env.XDG_STATE_HOME = folder.path .. "/state"
  local out, code = sh.run("unset SYNOD_STORE SYNOD_INSTANCE; " .. WAIT .. script, options)
  return out, code, folder:read "log"
end

local function has(out, text) assert.truthy(out:find(text, 1, true), out) end

--- Appends the fence to a file again and again, and does not end on TERM.
local STUBBORN = [[sh -c 'trap "" TERM; while :; do echo $SYNOD_FENCE >>"$DIR/log"; sleep 0.01; done']]

--- No line of a holder stands behind one of its successor.
local function assert_in_order(log, least)
  local last, holders = 0, 0
  for line in log:gmatch("%d+") do
    local fence = math.tointeger(tonumber(line))
    assert.is_true(fence >= last, "an older fence was written after a newer one")
    if fence > last then holders = holders + 1 end
    last = fence
  end
  assert.is_true(holders >= least, ("%d holders"):format(holders))
end

describe("synod lock", function()
  it("runs COMMAND with a fence that grows, and passes its exit code on", function()
    local out = shell([[
      $SYNOD lock x -- sh -c 'echo "fence $SYNOD_FENCE by $SYNOD_INSTANCE"; exit 5'; echo "code $?"
      $SYNOD lock x --instance me -- sh -c 'echo "fence $SYNOD_FENCE by $SYNOD_INSTANCE"'; echo "code $?"
    ]])
    local first, second = out:match("fence (%d+) by lock@.-\ncode 5\nfence (%d+) by me\ncode 0\n")
    assert.is_true(math.tointeger(second) > math.tointeger(first), out)
  end)

  it("lets one run at a time", function()
    local _, code, log = shell([[
      for i in 1 2 3 4 5; do
        $SYNOD lock x -- sh -c 'echo $SYNOD_FENCE in >>"$DIR/log"; sleep 0.05; echo $SYNOD_FENCE out >>"$DIR/log"' &
        all="$all $!"
      done
      for each in $all; do wait $each || exit 1; done
    ]])
    assert.equal(0, code)
    local runs = 0
    for entered, left in log:gmatch("(%d+) in\n(%d+) out\n") do
      assert.equal(entered, left, log)
      runs = runs + 1
    end
    assert.equal(5, runs, log)
    assert_in_order(log, 5)
  end)

  it("says who holds it when its time is over, and does not run COMMAND", function()
    local out = shell([[
      $SYNOD lock x --instance first -- sh -c 'echo here >"$DIR/ready"; sleep 1.5' & first=$!
      await ready
      $SYNOD lock x --timeout 0 -- echo ran; echo "code $?"
      $SYNOD lock x --timeout 0.1 --timeout-exit 44 -- echo ran; echo "code $?"
      $SYNOD status x; echo "code $?"
      kill $first; wait $first
      $SYNOD status x; echo "code $?"
      $SYNOD status y; echo "code $?"
    ]])
    has(out, "the lock 'x' is not free: held by first on ")
    has(out, "the lock 'x' was not free within 0.1 s: held by first on ")
    assert.is_nil(out:find("ran", 1, true))
    has(out, "mutex/x: held by first\n")
    assert.matches("purpose%s+sh\n", out)
    has(out, "mutex/x: nobody holds it")
    has(out, "y: nothing of this name is in the store")
    assert.same({ "4", "44", "0", "1", "1" },
      { out:match("code (%d+).-code (%d+).-code (%d+).-code (%d+).-code (%d+)") }, out)
  end)

  it("is released only when COMMAND has ended, which takes the time it takes", function()
    local _, code, log = shell([[
      $SYNOD lock x -- sh -c 'trap "sleep 0.5; echo 1 >>\"$DIR/log\"; exit 9" TERM; echo >"$DIR/ready" here
        while :; do sleep 0.01; done' & first=$!
      await ready
      $SYNOD lock x -- sh -c 'echo 2 >>"$DIR/log"' & second=$!
      sleep 0.1; kill $first; wait $first; code=$?; wait $second; exit $code
    ]])
    assert.equal(9, code)
    assert.equal("1\n2\n", log)
  end)

  it("leaves nothing behind when a signal ends the waiting", function()
    local out = shell([[
      $SYNOD lock x -- sh -c 'echo here >"$DIR/ready"; sleep 0.6' & first=$!
      await ready
      $SYNOD lock x -- echo ran & second=$!
      sleep 0.2; kill -INT $second; wait $second; echo "code $?"; wait $first
      $SYNOD lock x --timeout 1 -- true; echo "code $?"
    ]])
    assert.equal("code 130\ncode 0\n", out)
  end)

  it("begins nothing when a signal has come before it took them in hand", function()
    local out = shell([[
      cc -shared -fPIC -o "$DIR/early.so" spec/support/early_signal.c || exit
      for words in "lock x" "lead x" "wait x --parties 1 --ordinal 0 --round 1"; do
        env ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0 LD_PRELOAD="$DIR/early.so" $SYNOD $words -- echo ran
        echo "code $?"
      done
    ]])
    assert.equal(("code 143\n"):rep(3), out)
  end)

  it("stops COMMAND when the lock is lost, and says so", function()
    for option, expected in pairs { [""] = 5, ["--lost-exit 77"] = 77 } do
      local out, code, log = shell([[
        $SYNOD lock x --ttl 1 ]] .. option .. [[ -- sh -c 'trap "echo term >>\"$DIR/log\"" TERM
          echo here >"$DIR/ready"; while :; do sleep 0.01; done' & first=$!
        await ready; $SYNOD store rm locks/mutex/x; wait $first ]])
      assert.equal(expected, code, out)
      has(out, "the lock 'x' was lost, and COMMAND was stopped: ")
      assert.equal("term\n", log)
    end
  end)

  it("kills COMMAND when it does not end on TERM, and still says so", function()
    local out, code = shell([[
      $SYNOD lock x --ttl 1 --lost-exit 77 -- ]] .. STUBBORN .. [[ & first=$!
      await log; $SYNOD store rm locks/mutex/x; wait $first; code=$?
      wc -l <"$DIR/log"; sleep 0.1; wc -l <"$DIR/log"; exit $code ]])
    assert.equal(77, code, out)
    has(out, "the lock 'x' was lost, and COMMAND was stopped: ")
    local before, after = out:match("(%d+)\n(%d+)\n$")
    assert.equal(before, after)
  end)

  for what, signals in pairs {
    ["killed"] = "kill -KILL $first", ["stopped"] = "kill -STOP $first",
    ["stopped with its leash"] = "kill -STOP $leash $first",
  } do
    it("lets COMMAND end before the lease does when it is " .. what, function()
      for _ = 1, ROUNDS do
        local out, code, log = shell([[
          $SYNOD lock x --ttl 1 -- ]] .. STUBBORN .. [[ & first=$!
          await log; sleep 0.2; leash=$(ps -o pid= --ppid $first)
          $SYNOD lock x --ttl 10 -- sh -c 'for i in 1 2 3; do echo $SYNOD_FENCE >>"$DIR/log"; sleep 0.05; done' &
          second=$!
          ]] .. signals .. [[; wait $second; code=$?
          kill -CONT $leash $first 2>/dev/null; kill -KILL $first 2>/dev/null; wait $first 2>/dev/null; exit $code
        ]])
        assert.equal(0, code, out)
        assert_in_order(log, 2)
      end
    end)
  end

  it("does not let the credentials through", function()
    local r = program.run({ "lock", "x", "--", "env" }, { env = { AZURE_STORAGE_KEY = "c2VjcmV0" } })
    assert.equal(0, r.code, r.err)
    assert.is_nil(r.out:find("c2VjcmV0", 1, true))
  end)

  for words, problem in pairs {
    ["lock"] = "lock: NAME is missing",
    ["lock x"] = "COMMAND is missing: synod lock x -- COMMAND...",
    ["lock x true"] = "'true' is one word too many; a command is given after --",
    ["lock x --ttl 70 -- true"] = "--ttl: ",
    ["lock x --ttl 20.5 -- true"] = "--ttl: ",
    ["lead"] = "lead: NAME is missing",
    ["lead x --lost-exit 300 -- true"] = "--lost-exit: an exit code is at most 255",
    ["lock x -- ''"] = "lock: COMMAND is empty",
    ["lead x --lost-exit no -- true"] = "--lost-exit: 'no' is not a whole number from 0",
    ["status"] = "status: NAME is missing",
    ["status x y"] = "unexpected argument 'y'",
  } do
    it("refuses: " .. words, function()
      local out, code = shell("$SYNOD " .. words)
      assert.equal(2, code, out)
      has(out, problem)
    end)
  end
end)

describe("synod lead", function()
  it("runs COMMAND where the leader is, and resigns when COMMAND ends", function()
    local out, _, log = shell([[
      $SYNOD lead x --instance a -- sh -c 'echo a in >>"$DIR/log"; sleep 0.5; echo a out >>"$DIR/log"; exit 3' &
      first=$!; await log
      $SYNOD lead x --instance b -- sh -c 'echo b in >>"$DIR/log"; exit 4' & second=$!
      sleep 0.1; $SYNOD status x
      wait $first; echo "code $?"; wait $second; echo "code $?"
    ]])
    assert.equal("a in\na out\nb in\n", log, out)
    has(out, "election/x: held by a\n")
    has(out, "code 3\ncode 4\n")
  end)

  it("stands for election again when leadership was lost, unless told to end", function()
    local out, code, log = shell([[
      $SYNOD lead x --ttl 1 -- sh -c 'echo $SYNOD_FENCE >>"$DIR/log"
        [ $(grep -c . "$DIR/log") = 2 ] && exit 8; sleep 30' &
      first=$!; await log; $SYNOD store rm locks/election/x; wait $first ]])
    assert.equal(8, code, out)
    has(out, "leadership of 'x' was lost, and COMMAND was stopped: ")
    assert.matches("^%d+\n%d+\n$", log)
    out, code = shell([[
      $SYNOD lead x --ttl 1 --lost-exit 66 -- sh -c 'echo here >"$DIR/ready"; sleep 30' & first=$!
      await ready; $SYNOD store rm locks/election/x; wait $first ]])
    assert.equal(66, code, out)
  end)

  it("ends when it was told to, also when leadership is lost meanwhile", function()
    local out, code = shell([[
      $SYNOD lead x --ttl 1 -- ]] .. STUBBORN .. [[ & first=$!
      await log; kill $first; $SYNOD store rm locks/election/x; wait $first ]])
    assert.equal(143, code, out)
  end)

  it("hands a signal to COMMAND, and leads no more", function()
    local out, code = shell([[
      $SYNOD lead x -- sh -c 'trap "exit 6" TERM; echo here >"$DIR/ready"; while :; do sleep 0.01; done' & first=$!
      await ready; kill $first; wait $first ]])
    assert.equal(6, code, out)
  end)

  it("stands for election again when COMMAND went on after a HUP, and leadership was lost later", function()
    local out, code = shell([[
      $SYNOD lead x --ttl 6 -- sh -c 'echo run >>"$DIR/runs"; [ $(grep -c . "$DIR/runs") = 2 ] && exit 8
        trap "echo again >\"$DIR/reloaded\"" HUP; echo here >"$DIR/ready"; while :; do sleep 0.01; done' & first=$!
      await ready; kill -HUP $first; await reloaded; $SYNOD store rm locks/election/x; wait $first ]])
    assert.equal(8, code, out)
    has(out, "leadership of 'x' was lost, and COMMAND was stopped: ")
  end)

  it("ends by a HUP that ends COMMAND, or comes before there is one", function()
    local out, code = shell([[
      $SYNOD lead x -- sh -c 'echo here >"$DIR/ready"; while :; do sleep 0.01; done' & first=$!
      await ready; $SYNOD lead x -- echo ran & second=$!
      sleep 0.1; kill -HUP $second; wait $second; echo "code $?"; kill -HUP $first; wait $first ]])
    assert.equal(129, code, out)
    has(out, "code 129\n")
    assert.is_nil(out:find "ran", out)
  end)
end)
