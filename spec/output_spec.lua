-- print, io.write and their kin in a real process: nobody reads, somebody stopped reading, the disk is full.

local sh = require "spec.support.sh"

--- Runs a shell script around the program in a folder with x.lua.
local function shell(lua, script, options)
  local folder <close> = sh.folder()
  folder:write("x.lua", lua)
  options = options or {}
  options.dir = folder.path
  options.timeout = options.timeout or 60
  return sh.run(script, options)
end

local function script(lua) return (shell(lua, [[ exec $SYNOD run "$DIR/x.lua" 2>&1 ]])) end

--- The script's output is read by a shell command.
local function into(reader) return ([[ $SYNOD run "$DIR/x.lua" | { %s; } ]]):format(reader) end

describe("printing", function()
  it("writes what Lua would write", function()
    assert.equal("1\t2.0\tnil\ttrue\tx\n\n", script([[print(1, 2.0, nil, true, "x") print()]]))
    assert.equal("a1b2.5\n", script([[io.write("a", 1, "b") io.stdout:write(2.5):write("\n")]]))
  end)

  it("calls __tostring, as print does", function()
    assert.equal("shown\n", script([[print(setmetatable({}, { __tostring = function() return "shown" end }))]]))
  end)

  it("refuses what io.write refuses", function()
    local out = script([[io.stdout:write("a", {})]])
    assert.matches("x.lua:1: bad argument #2 to 'write' %(string expected, got table%)", out)
  end)

  it("keeps the order of what one task writes, and of both streams on one descriptor", function()
    local out = script([[
      for i = 1, 3 do
        print("out", i)
        io.stdout:flush()
        io.stderr:write("err\t", i, "\n")
      end
    ]])
    assert.equal("out\t1\nerr\t1\nout\t2\nerr\t2\nout\t3\nerr\t3\n", out)
  end)

  it("treats its streams as files", function()
    assert.equal("file\tfile\tnil\tfile (stdout)\ttrue\n", script([[
      print(io.type(io.stdout), io.type(io.stderr), io.type(1), io.stdout, io.output() == io.stdout)
    ]]))
  end)

  it("lets io.output choose a file, and come back", function()
    assert.equal("back\nin the file\n", script([[
      local name = os.tmpname()
      io.output(name)
      io.write("in the file\n")
      io.close()
      io.output(io.stdout)
      io.write("back\n")
      for line in io.lines(name) do print(line) end
      os.remove(name)
    ]]))
  end)

  it("loses nothing when it is read late, and the other tasks go on", function()
    local out = shell([[
      local synod = require "synod"
      local ticks = 0
      synod.spawn(function()
        while true do
          synod.sleep(0.01)
          ticks = ticks + 1
        end
      end):detach()
      for i = 1, 10000 do print(("x"):rep(1000)) end
      print("last")
      io.stderr:write(ticks >= 5 and "went on" or ticks, "\n")
    ]], into("sleep 0.5; tail -n 1"))
    assert.equal("went on\nlast\n", out)
  end)

  it("loses nothing on a socket", function()
    local out = shell("for i = 1, 300000 do print(i) end", [[ exec node -e '
      const child = require("child_process").spawn(process.env.SYNOD, ["run", process.env.DIR + "/x.lua"],
        { stdio: ["ignore", "pipe", "inherit"] }) // a pair of sockets
      let size = 0
      setTimeout(() => child.stdout.on("data", (d) => { size += d.length }), 200)
      child.on("close", (code) => console.log(code, size))' ]])
    assert.equal("0 1988895\n", out)
  end)

  it("loses nothing on a pipe that it may not open again", function()
    local _, refused = sh.run("setpriv --reuid=65534 --clear-groups true")
    if refused ~= 0 then return pending("needs root, to become somebody else") end
    local out = shell("for i = 1, 300000 do print(i) end", [[
      cp $SYNOD "$DIR/synod"
      chmod -R a+rX "$DIR"
      env HOME=/ setpriv --reuid=65534 --clear-groups "$DIR/synod" run "$DIR/x.lua" | { sleep 0.2; wc -l; }
    ]])
    assert.equal(300000, tonumber(out), out)
  end)

  it("blocks nobody there when a signal cuts short its look whether there is room", function()
    local out = shell([[
      local synod = require "synod"
      local ticked = ...
      synod.spawn(function()
        synod.sleep(0.01)
        io.open(ticked, "w"):close()
      end)
      print(("x"):rep(300000))
    ]], sh.preload "interrupted.c" .. [[
      preloaded $SYNOD run "$DIR/x.lua" "$DIR/ticked" | {
        while ! [ -e "$DIR/ticked" ]; do sleep 0.01; done
        wc -c
      }
    ]])
    assert.equal(300001, tonumber(out), out)
  end)

  it("does not keep more than its buffer while nobody reads", function()
    local out = shell([[
      local synod = require "synod"
      synod.spawn(function()
        synod.sleep(0.3)
        local file <close> = io.open("/proc/self/status")
        local kb = tonumber(file:read("a"):match("VmRSS:%s*(%d+)"))
        io.stderr:write(kb < 30000 and "small" or kb, "\n")
        io.open(os.getenv "DIR" .. "/measured", "w"):close()
      end)
      for i = 1, 10000 do print(("x"):rep(10000)) end
    ]], into("until [ -e $DIR/measured ]; do sleep 0.1; done; wc -c"))
    assert.equal("small\n100010000\n", out)
  end)

  it("goes on where Lua cannot wait, up to its maximum", function()
    local lua = [[
      local t = {}
      for i = 1, 2000 do t[i] = i * 7919 %% 2003 end
      table.sort(t, function(a, b) print(("s"):rep(%d)) return a < b end)
      print("sorted")
    ]]
    assert.equal("sorted\n", (shell(lua:format(200), into("sleep 0.3; tail -n 1"))))
    local out = shell(lua:format(2000), into("sleep 2; tail -n 1"))
    assert.matches("16 MiB were printed that nobody has read, and Lua cannot wait here", out)
  end)

  it("takes nothing back when a printing task is cancelled", function()
    local out = shell([[
      local synod = require "synod"
      local printed = 0
      local task = synod.spawn(function()
        while true do
          print(("x"):rep(500), printed + 1)
          printed = printed + 1
        end
      end)
      synod.sleep(0.1)
      task:cancel()
      task:join()
      print("end", printed)
    ]], into([[sleep 0.3; awk "/^x/ && \$2 != NR { exit 1 } { last = NR } /^end/ { print \$2, NR }"]]))
    local printed, lines = out:match("^(%d+) (%d+)\n$")
    assert.equal(printed + 2, tonumber(lines), out) -- its last line, and ours
  end)

  it("writes strings that are larger than its buffer", function()
    local out = shell([[io.write(("x"):rep(40 << 20))]], into("sleep 0.2; wc -c"))
    assert.equal(40 << 20, tonumber(out))
  end)

  it("ends quietly when its reader goes away, after clean-up", function()
    local out, code = shell([[
      local _ <close> = setmetatable({}, { __close = function() io.stderr:write("cleaned up\n") end })
      while true do print("line") end
    ]], [[ { $SYNOD run "$DIR/x.lua"; echo "code $?" >&2; } | head -n 1 ]])
    assert.equal(0, code)
    assert.equal("line\ncleaned up\ncode 141\n", out)
  end)

  it("ends so too when the reader went away after the last line was printed", function()
    local out = shell([[
      require("synod").sleep(0.2)
      print "late"
    ]], [[ { $SYNOD run "$DIR/x.lua"; echo "code $?" >&2; } | true ]])
    assert.equal("code 141\n", out)
  end)

  for _, case in ipairs {
    { "a full disk", ">/dev/full", "synod: standard output cannot be written: No space left on device" },
    { "a closed descriptor", ">&-", "synod: standard output cannot be written: it is closed" },
  } do
    it("fails at " .. case[1], function()
      for _, lua in ipairs { "print 'x'", "for i = 1, 100000 do print(i) end" } do
        local out, code = shell(lua, ([[ $SYNOD run "$DIR/x.lua" 2>&1 %s ]]):format(case[2]))
        assert.equal(1, code)
        assert.truthy(out:find(case[3], 1, true), out)
        local _, times = out:gsub("cannot be written", "")
        assert.equal(1, times, out)
      end
    end)
  end

  it("does not mind a closed standard output that it does not use", function()
    local out, code = shell("local x = 1", [[ $SYNOD run "$DIR/x.lua" 2>&1 >&- ]])
    assert.same({ "", 0 }, { out, code })
  end)

  it("leaves the descriptor that it shares with others blocking", function()
    local out = shell([[
      for i = 1, 100000 do print(i) end
      require("synod").sleep(0.2)
    ]], [[
      { $SYNOD run "$DIR/x.lua" & sleep 0.1; grep flags /proc/self/fdinfo/1 >&2; wait; } \
        | { sleep 0.3; cat >/dev/null; }
    ]])
    local flags = tonumber(out:match("flags:%s*(%d+)"), 8)
    assert.equal(0, flags & 2048, "O_NONBLOCK is set")
  end)

  it("says once that nobody reads, after 10 s", function()
    local out = shell([[for i = 1, 300000 do print(i) end]], into("sleep 10.5; tail -n 1"))
    assert.equal("synod: standard output has not been read for 10 s, and what prints there waits: "
      .. "read it, send it to a file, or end this program\n300000\n", out)
  end)

  it("is no reason to outlive a stop by more than 30 s", function()
    local lua = [[for i = 1, 300000 do print(i) end]]
    local out, code = shell(lua, [[
      mkfifo "$DIR/pipe"; exec 3<>"$DIR/pipe"
      $SYNOD run "$DIR/x.lua" >&3 2>"$DIR/err" & p=$!
      sleep 0.3; kill -TERM $p; wait $p
    ]], { timeout = 35 })
    assert.same({ "", 143 }, { out, code })
  end)
end)

describe("os and io", function()
  it("run a command in a shell as Lua does", function()
    assert.equal("hi\nnil\texit\t3\n", script([[print(os.execute("echo hi; exit 3"))]]))
    assert.equal("true\texit\t0\n", script([[print(os.execute("true"))]]))
    assert.equal("nil\tsignal\t15\n", script([[print(os.execute("kill $$"))]]))
    assert.equal("true\n", script([[print(os.execute())]]))
  end)

  it("do not block the other tasks", function()
    assert.equal("5\n", script([[
      local synod = require "synod"
      local ticks = 0
      synod.spawn(function() for i = 1, 5 do synod.sleep(0.01) ticks = ticks + 1 end end)
      os.execute("sleep 0.2")
      print(ticks)
    ]]))
  end)

  it("keep what was printed before in its order", function()
    assert.equal("before\ncommand\nafter\n", script([[print "before" os.execute("echo command") print "after"]]))
  end)

  it("read from a command as io.popen does", function()
    assert.equal("a|b\n|12| x\n|nil\ntrue\texit\t0\nclosed file\n", script([[
      local f = io.popen("printf 'a\nb\n12 x\n'")
      print(table.concat({ f:read("l", "L", "n", "a") }, "|") .. "|" .. tostring(f:read("l")))
      print(f:close())
      print(io.type(f))
    ]]))
    assert.equal("1 2 3 ", script([[for line in io.popen("seq 3"):lines() do io.write(line, " ") end]]))
    assert.equal("1\n2\n|nil\t0\t-\n", script([[
      local f = io.popen("seq 2")
      print(f:read("a") .. "|" .. tostring(f:read(1)), #f:read("a"), f:read(5) or "-")
    ]]))
  end)

  it("write to a command as io.popen does", function()
    assert.equal("to the command\nnil\texit\t4\n", script([[
      local f = io.popen("cat; exit 4", "w")
      f:write("to the ", "command\n")
      print(f:close())
    ]]))
  end)

  it("end a command that io.popen started and nobody closed", function()
    local lua = [[local f <close> = io.popen("sleep 60")]]
    local _, code = shell(lua, [[ exec $SYNOD run "$DIR/x.lua" ]], { timeout = 5 })
    assert.equal(0, code)
  end)

  it("lend the terminal to a command that reads from it", function()
    local out = shell([[print(os.execute("read x; echo got $x")) print(io.read("l"))]],
      [[ { sleep 0.3; echo one; sleep 0.3; echo two; sleep 0.3; } | script -qec "$SYNOD run $DIR/x.lua" /dev/null ]])
    assert.truthy(out:find("got one", 1, true), out)
    assert.truthy(out:find("true%s+exit%s+0"), out)
  end)

  it("exit at once, with clean-up", function()
    local out, code = shell([[
      local synod = require "synod"
      synod.spawn(function()
        local _ <close> = setmetatable({}, { __close = function() print("other task closed") end })
        synod.sleep(60)
      end)
      synod.sleep(0)
      pcall(os.exit, false)
      print("went on")
    ]], [[ exec $SYNOD run "$DIR/x.lua" ]], { timeout = 5 })
    assert.equal(1, code)
    assert.truthy(out:find("other task closed", 1, true))
  end)
end)
