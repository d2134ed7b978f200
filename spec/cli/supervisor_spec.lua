-- synod run -n N: real processes, real signals.

local program = require "spec.support.program"
local sh = require "spec.support.sh"

--- Runs a shell script around the program in a folder with x.lua.
local function shell(lua, script, options)
  local folder <close> = sh.folder()
  folder:write("x.lua", lua)
  options = options or {}
  options.dir = folder.path
  return sh.run(script, options)
end

local function lines_of(text)
  local list = {}
  for line in text:gmatch("([^\n]*)\n") do list[#list + 1] = line end
  table.sort(list)
  return list
end

local function run_n(n, lua, options, ...)
  options = options or {}
  options.files = { ["x.lua"] = lua }
  local args = { "run", "-n", tostring(n), ... }
  args[#args + 1] = "x.lua"
  return program.run(args, options)
end

describe("synod run -n", function()
  it("starts instances that know who they are", function()
    local r = run_n(3, [[
      local i = require("synod").instance
      print(i.id, i.role, i.ordinal, i.count, #i.deployment > 0)
    ]])
    assert.equal(0, r.code, r.err)
    assert.same({
      "x_IN_0 | x_IN_0\tx\t0\t3\ttrue", "x_IN_1 | x_IN_1\tx\t1\t3\ttrue", "x_IN_2 | x_IN_2\tx\t2\t3\ttrue",
    }, lines_of(r.out))
  end)

  it("takes a script of any name", function()
    local name = ("x"):rep(120)
    local r = program.run({ "run", "-n", "11", name .. ".lua" }, { files = { [name .. ".lua"] = "print 'here'" } })
    assert.equal(0, r.code, r.err)
    assert.truthy(r.out:find(name .. "_IN_3  | here\n", 1, true), r.out)
  end)

  it("refuses a script that only one could read", function()
    local out, code = require("spec.support.sh").run([[echo "error()" | $SYNOD run -n 2 /dev/stdin]])
    assert.equal(2, code)
    assert.matches("/dev/stdin: each instance reads the script itself", out, 1, true)
  end)

  it("gives each run a deployment of its own, and takes one that is given", function()
    local lua = [[print(require("synod").instance.deployment)]]
    local first, second = run_n(1, lua).out, run_n(1, lua).out
    assert.not_equal(first, second)
    assert.equal("x_IN_0 | blue\n", run_n(1, lua, nil, "--deployment", "blue").out)
    local both = lines_of(run_n(2, lua).out)
    assert.equal(both[1]:match("| (.*)"), both[2]:match("| (.*)"))
  end)

  it("passes the script's arguments on", function()
    local r = program.run({ "run", "-n", "1", "x.lua", "-n", "a b" }, { files = { ["x.lua"] = "print(...)" } })
    assert.equal("x_IN_0 | -n\ta b\n", r.out)
  end)

  it("keeps standard output and standard error apart, and pads the names", function()
    local r = run_n(11, [[
      if require("synod").instance.ordinal ~= 3 then return end
      io.write("out\n") io.stderr:write("err\n")
    ]])
    assert.equal("x_IN_3  | out\n", r.out)
    assert.equal("x_IN_3  | err\n", r.err)
  end)

  it("passes on whole lines only, whoever writes at the same time", function()
    local r = run_n(4, [[
      local synod = require "synod"
      local o = synod.instance.ordinal
      for i = 1, 300 do
        io.write(("%d"):format(o):rep(50))
        if i % 50 == 0 then synod.sleep(0.001) end
        io.write(("%d"):format(o):rep(50), "\n")
      end
    ]])
    local count = 0
    for line in r.out:gmatch("[^\n]+") do
      local o = line:match("^x_IN_(%d) | ")
      assert.equal(("x_IN_%s | %s"):format(o, o:rep(100)), line)
      count = count + 1
    end
    assert.equal(1200, count)
  end)

  it("ends the last line of an instance that did not", function()
    assert.equal("x_IN_0 | no newline\n", run_n(1, [[io.write("no newline")]]).out)
  end)

  it("passes a line without end on in pieces", function()
    local r = run_n(1, [[io.write(("x"):rep(300000), "\n", "next\n")]])
    local size, pieces = 0, 0
    for mark, text in r.out:gmatch("x_IN_0 ([|+]) (x+)\n") do
      assert.equal(pieces == 0 and "|" or "+", mark)
      size, pieces = size + #text, pieces + 1
    end
    assert.equal(300000, size)
    assert.is_true(pieces > 1)
    assert.matches("\nx_IN_0 | next\n$", r.out)
  end)

  it("leaves JSON log lines as they are", function()
    local lua = [[require("synod").log.info("hello") io.stderr:write("plain\n")]]
    local r = run_n(1, lua, nil, "--log-format", "json")
    assert.matches('^{"time":"[^"]+","level":"info","instance":"x_IN_0","task":"main","message":"hello"}\n', r.err)
    assert.matches("\nx_IN_0 | plain\n$", r.err)
  end)

  it("says what it has to say as JSON too", function()
    local r = run_n(1, "os.exit(3)", nil, "--log-format", "json")
    assert.matches('^{"time":"[^"]+","level":"error","instance":"synod","task":"[^"]+",'
      .. '"message":"x_IN_0 failed with exit code 3"}\n$', r.err)
  end)

  it("says the name once in a log line", function()
    local r = run_n(1, [[require("synod").log.info("hello")]])
    assert.matches("^x_IN_0 | [%d-]+ [%d:.]+Z INFO  hello\n$", r.err)
  end)

  it("colours the names on a terminal only, and not with NO_COLOR", function()
    local function on_terminal(env)
      return (shell("print 'hi'", [[script -qec "$SYNOD run -n 1 $DIR/x.lua" /dev/null </dev/null]], { env = env }))
    end
    assert.truthy(on_terminal({ TERM = "xterm" }):find("\27%[%d+mx_IN_0 | \27%[0mhi"))
    assert.is_nil(on_terminal({ TERM = "xterm", NO_COLOR = "1" }):find("\27", 1, true))
    assert.is_nil(run_n(1, "print 'hi'", { env = { TERM = "xterm" } }).out:find("\27", 1, true))
  end)

  it("exits with the first failure in time, and says who failed and how", function()
    local r = run_n(3, [[
      local synod = require "synod"
      local o = synod.instance.ordinal
      synod.sleep(0.3 - 0.1 * o)
      if o > 0 then os.exit(10 + o) end
    ]])
    assert.equal(12, r.code)
    assert.matches("synod: x_IN_2 failed with exit code 12\n", r.err)
    assert.matches("synod: x_IN_1 failed with exit code 11\n", r.err)
    assert.is_nil(r.err:find("x_IN_0", 1, true))
  end)

  it("says which signal ended an instance", function()
    local r = run_n(2, [[
      local synod = require "synod"
      if synod.instance.ordinal == 1 then synod.exec { "sh", "-c", "kill -KILL $PPID" } end
    ]])
    assert.equal(137, r.code)
    assert.matches("synod: x_IN_1 was ended by signal 9 %(SIGKILL%)\n", r.err)
  end)

  it("shows an instance's error with its name", function()
    local r = run_n(1, "error 'broken'")
    assert.equal(1, r.code)
    assert.matches("x_IN_0 | synod: x.lua:1: broken\n", r.err)
    assert.matches("synod: x_IN_0 failed with exit code 1\n$", r.err)
  end)

  it("lets the others go on when one fails", function()
    local r = run_n(2, [[
      local synod = require "synod"
      if synod.instance.ordinal == 0 then os.exit(3) end
      synod.sleep(0.2)
      print("went on")
    ]])
    assert.equal(3, r.code)
    assert.equal("x_IN_1 | went on\n", r.out)
  end)

  it("stops the others with --fail-fast, with their clean-up", function()
    local r = run_n(2, [[
      local synod = require "synod"
      if synod.instance.ordinal == 0 then
        synod.sleep(0.2)
        os.exit(3)
      end
      local _ <close> = setmetatable({}, { __close = function() print("cleaned up") end })
      synod.sleep(60)
    ]], nil, "--fail-fast")
    assert.equal(3, r.code)
    assert.equal("x_IN_1 | cleaned up\n", r.out)
    assert.matches("x_IN_0 failed", r.err)
  end)

  for name, code in pairs { INT = 130, TERM = 143, HUP = 129 } do
    it("passes SIG" .. name .. " on once, also to one that computes", function()
      local out, got = shell([[
        local synod = require "synod"
        if synod.instance.ordinal < 2 then synod.on("stopping", function() print("stopping") end) end
        local _ <close> = setmetatable({}, { __close = function() print("cleaned up") end })
        print "up"
        if synod.instance.ordinal < 2 then synod.sleep(60) else while true do end end
      ]], ([[
        $SYNOD run -n 3 "$DIR/x.lua" >"$DIR/out" 2>&1 & synod=$!
        while [ "$(grep -cs up "$DIR/out")" != 3 ]; do sleep 0.01; done
        kill -%s $synod
        wait $synod
        code=$?
        cat "$DIR/out"
        exit $code
      ]]):format(name), { timeout = 20 })
      assert.equal(code, got, out)
      for o = 0, 1 do
        local _, count = out:gsub("x_IN_" .. o .. " | stopping", "")
        assert.equal(1, count, out)
      end
      local _, cleaned = out:gsub("cleaned up", "")
      assert.equal(3, cleaned, out)
      assert.is_nil(out:find("failed", 1, true))
    end)
  end

  it("goes on under nohup", function()
    local out, code = shell([[
      print "up"
      require("synod").sleep(0.3)
      print "done"
    ]], [[
      nohup $SYNOD run -n 1 "$DIR/x.lua" >"$DIR/out" 2>/dev/null & synod=$!
      while ! grep -qs up "$DIR/out"; do sleep 0.01; done
      kill -HUP $synod
      wait $synod
      code=$?
      cat "$DIR/out"
      exit $code
    ]], { timeout = 20 })
    assert.equal(0, code)
    assert.equal("x_IN_0 | up\nx_IN_0 | done\n", out)
  end)

  it("ends at a second SIGINT without waiting, and takes all with it", function()
    local out, code = shell([[
      local synod = require "synod"
      synod.on("stopping", function() print("stopping") synod.sleep(60) end)
      print "up"
      synod.exec { "sleep", ... }
    ]], [[
      $SYNOD run -n 2 "$DIR/x.lua" 4711.$$ >"$DIR/out" 2>&1 & synod=$!
      while [ "$(grep -cs up "$DIR/out")" != 2 ]; do sleep 0.01; done
      kill -INT $synod
      while [ "$(grep -cs stopping "$DIR/out")" != 2 ]; do sleep 0.01; done
      kill -INT $synod
      wait $synod 2>/dev/null
      code=$?
      sleep 0.3
      ps -eo args | grep -F "$DIR/x.lua" | grep -v grep
      ps -eo args | grep "^sleep 4711.$$"
      exit $code
    ]], { timeout = 20 })
    assert.equal(130, code, out)
    assert.equal("", out)
  end)

  it("leaves no process behind when it is killed", function()
    local out = shell([[
      print "up"
      require("synod").exec { "sleep", ... }
    ]], [[
      $SYNOD run -n 3 "$DIR/x.lua" 4712.$$ >"$DIR/out" 2>&1 & synod=$!
      while [ "$(grep -cs up "$DIR/out")" != 3 ]; do sleep 0.01; done
      while [ "$(ps -eo args | grep -c "^sleep 4712.$$")" != 3 ]; do sleep 0.01; done
      kill -KILL $synod
      wait $synod 2>/dev/null
      sleep 0.3
      ps -eo args | grep -F "$DIR/x.lua" | grep -v grep
      ps -eo args | grep "^sleep 4712.$$"
      true
    ]], { timeout = 20 })
    assert.equal("", out)
  end)

  it("puts each instance into a process group of its own", function()
    local r = run_n(2, [[
      local file <close> = io.open("/proc/self/stat")
      local pid, group = file:read("a"):match("^(%d+) .*%) %a %d+ (%d+)")
      print(pid == group)
    ]])
    assert.same({ "x_IN_0 | true", "x_IN_1 | true" }, lines_of(r.out))
  end)

  it("shows a connection string neither in arguments nor in the environment", function()
    local url = "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=c2VjcmV0;BlobEndpoint=http://127.0.0.1:1/a"
    local out, code = shell([[
      for _, name in ipairs { "cmdline", "environ" } do
        local file <close> = io.open("/proc/self/" .. name)
        if file:read("a"):find("c2VjcmV0", 1, true) then print("seen in " .. name) end
      end
      print("done")
    ]], [[ exec $SYNOD run -n 1 --store "]] .. url .. [[" "$DIR/x.lua" ]])
    assert.equal(0, code, out)
    assert.equal("x_IN_0 | done\n", out)
  end)

  it("lets commands of instances see it with --pass-credentials only", function()
    local url = "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=c2VjcmV0;BlobEndpoint=http://127.0.0.1:1/a"
    local lua = [[io.write(require("synod").exec { "sh", "-c", "env; cat /proc/self/fd/[3-9] 2>&1" }.stdout)]]
    local script = [[ exec $SYNOD run -n 1 %s --store "]] .. url .. [[" "$DIR/x.lua" ]]
    local hidden = shell(lua, script:format(""))
    assert.is_nil(hidden:find("c2VjcmV0", 1, true))
    assert.is_nil(hidden:find("SYNOD_STORE", 1, true))
    local shown = shell(lua, script:format("--pass-credentials"))
    assert.truthy(shown:find("x_IN_0 | SYNOD_STORE=" .. url .. "\n", 1, true), shown)
  end)

  it("shares its descriptors with no command: to another synod their numbers mean files of its own", function()
    local out, code = shell([[
      local seen = require("synod").exec { "env" }.stdout
      print(seen:match "SYNOD_%u+_FD" or seen:match "SYNOD_SUPERVISED" or "nothing", (seen:match "SYNOD_INSTANCE=x"))
    ]], [[ exec $SYNOD run -n 1 --pass-credentials "$DIR/x.lua" ]])
    assert.equal(0, code, out)
    assert.equal("x_IN_0 | nothing\tSYNOD_INSTANCE=x\n", out)
  end)

  it("gives up its output's reader quietly", function()
    local out, code = shell([[for i = 1, 100000 do print(i) end]], [[
      { $SYNOD run -n 2 "$DIR/x.lua"; echo "code $?" >&2; } | head -n 1 >/dev/null
    ]])
    assert.equal(0, code)
    assert.equal("code 141\n", out)
  end)

  it("says that its output cannot be written", function()
    local out, code = shell("for i = 1, 100000 do print(i) end", [[ $SYNOD run -n 2 "$DIR/x.lua" 2>&1 >/dev/full ]])
    assert.equal(1, code)
    assert.matches("standard output cannot be written: No space left on device", out)
  end)

  it("loses nothing when its output is read late", function()
    local out = shell([[for i = 1, 50000 do print(i) end]], [[
      $SYNOD run -n 3 "$DIR/x.lua" | { sleep 0.3; wc -l; }
    ]])
    assert.equal(150000, tonumber(out))
  end)

  it("runs 200 instances", function()
    local began = os.time()
    local r = run_n(200, "print 'up'", { before = "ulimit -Sn 256;" })
    assert.equal(0, r.code, r.err)
    assert.equal(200, #lines_of(r.out))
    assert.is_true(os.time() - began < 15)
  end)

  it("says what to do when there are too few descriptors", function()
    local r = run_n(200, "print 'up'", { before = "ulimit -n 256;" })
    assert.equal(1, r.code)
    assert.matches("%-n 200 needs %d+ open files, and this user may have 256: raise the limit", r.err)
  end)
end)
