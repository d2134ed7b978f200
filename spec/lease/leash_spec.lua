-- The parent process of a guarded command: here it is a fork of lua5.4; spec/cli/lock_spec.lua has the program's.

local core = require "synod.core"
local exec = require "synod.exec"
local sh = require "spec.support.sh"

local S = 1000000000
local TERM, KILL, STOP, CONT = 15, 9, 19, 18

--- Starts a shell script under a leash with `soft` and `hard` seconds to go (nil: without end).
local function start(script, soft, hard, options)
  local spawn = {
    file = "sh", args = { "sh", "-c", script }, env = exec.environment(), leash = true, stdout = "pipe",
    soft = soft and core.instant() + math.floor(soft * S), hard = hard and core.instant() + math.floor(hard * S),
  }
  for name, value in pairs(options or {}) do spawn[name] = value end
  return assert(core.process_spawn(spawn))
end

local function run(fn) return core.main(fn, {}) end

local function line(process)
  local text = ""
  repeat
    local data = process:read "stdout"
    text = text .. (data or "")
  until text:find("\n", 1, true) or not data
  return text:match("[^\n]*")
end

--- The state letter of a process, or nil when there is none or it has ended.
local function state_of(pid)
  local file <close> = io.open("/proc/" .. pid .. "/stat")
  local state = file and file:read("a"):match(".*%) (%a)")
  return state ~= "Z" and state or nil
end

local function gone(pid, patience)
  local deadline = core.now() + (patience or 3)
  while state_of(pid) and core.now() < deadline do core.sleep(0.005) end
  return state_of(pid) == nil
end

local function signal(pid, number) os.execute(("kill -%d %s"):format(number, pid)) end

describe("a leash", function()
  it("passes on how the command ended, exactly", function()
    run(function()
      for _, case in ipairs {
        { "exit 0", "exited", 0 }, { "exit 7", "exited", 7 }, { "exit 255", "exited", 255 },
        { "exit 137", "exited", 137 },
        { "kill -TERM $$", "killed", 15 }, { "kill -KILL $$", "killed", 9 }, { "kill -USR1 $$", "killed", 10 },
      } do
        local kind, number = start(case[1]):wait()
        assert.same({ case[2], case[3] }, { kind, number }, case[1])
      end
    end)
  end)

  it("passes on what it wrote, and ends its streams when it does", function()
    run(function()
      local p = start("echo one; exec >&-; sleep 0.3")
      assert.equal("one", line(p))
      assert.is_nil(p:read "stdout")
      assert.equal("running", (p:wait(0)))
      assert.equal("exited", (p:wait()))
    end)
  end)

  it("says why a command could not be executed", function()
    run(function()
      for file, code in pairs { ["no-such-command-anywhere"] = "CommandNotFound", ["/etc/passwd"] = "CommandNotRun" } do
        local kind, err = start("", nil, nil, { file = file, args = { file } }):wait()
        assert.is_nil(kind)
        assert.equal(code, err.code)
      end
      local _, err = start("", nil, nil, { directory = "/nonexistent" }):wait()
      assert.matches("/nonexistent", tostring(err))
    end)
  end)

  it("sends TERM at the soft stop, and KILL at the hard one", function()
    run(function()
      local began = core.now()
      local p = start("trap 'echo term' TERM; echo go; while :; do sleep 0.01; done", 1, 1.3)
      assert.equal("go", line(p))
      assert.equal("term", line(p))
      assert.is_true(core.now() - began >= 1)
      assert.same({ "killed", KILL }, { p:wait() })
      assert.is_true(core.now() - began >= 1.3)
    end)
  end)

  it("does not run a command whose time is over", function()
    run(function()
      local p = start("echo ran", -1, 1)
      assert.same({ "killed", KILL }, { p:wait() })
      assert.is_nil(p:read "stdout")
    end)
  end)

  it("takes later deadlines, but none once TERM is sent", function()
    run(function()
      local p = start("trap 'echo term' TERM; echo go; while :; do sleep 0.01; done", 1.5, 2)
      assert.equal("go", line(p))
      for _ = 1, 6 do
        core.sleep(0.4)
        assert.is_true(p:move(core.instant() + S * 15 // 10, core.instant() + S * 2))
      end
      assert.equal("running", (p:wait(0)))
      assert.equal("term", line(p))
      p:move(core.instant() + 100 * S, core.instant() + 100 * S)
      assert.same({ "killed", KILL }, { p:wait(3) })
    end)
  end)

  it("gives a stopped command its TERM too", function()
    run(function()
      local p = start("trap 'echo term; exit 3' TERM; echo $$; kill -STOP $$", 1, 5)
      local pid = line(p)
      assert.equal("term", line(p))
      assert.same({ "exited", 3 }, { p:wait() })
      assert.is_true(gone(pid))
    end)
  end)

  it("hands signals on to the whole group", function()
    run(function()
      local p = start("trap 'echo int; exit 4' INT; sleep 300 & echo $!; while :; do sleep 0.01; done")
      local pid = line(p)
      p:kill(2)
      assert.equal("int", line(p))
      assert.same({ "exited", 4 }, { p:wait() })
      assert.is_true(gone(pid))
    end)
  end)

  it("hands on signals that were sent to it by number", function()
    run(function()
      local p = start("trap 'echo term; exit 5' TERM; echo go; while :; do sleep 0.01; done")
      assert.equal("go", line(p))
      signal(p:pid(), TERM)
      assert.same({ "exited", 5 }, { p:wait() })
    end)
  end)

  it("kills what is left of the group at the command's end, and reports when that is gone", function()
    run(function()
      local p = start("sleep 300 & echo $!; sh -c 'sleep 300 & echo $! >&2' 2>&1")
      local text = line(p)
      assert.same({ "exited", 0 }, { p:wait() })
      assert.is_nil(state_of(text))
    end)
  end)

  it("lets a daemon in a session of its own get away when the command ends by itself", function()
    run(function()
      local p = start("setsid -f sh -c 'echo $$; exec sleep 300'; read x", nil, nil, { stdin = "pipe" })
      local pid = line(p)
      p:write "go\n"
      assert.same({ "exited", 0 }, { p:wait() })
      assert.truthy(state_of(pid))
      signal(pid, KILL)
    end)
  end)

  it("kills even that when the deadline ends the command", function()
    run(function()
      local ours = 1000000 + io.open("/proc/self/stat"):read("n") -- other specs sleep too
      local p = start(
        ("setsid sh -c 'setsid -f sleep %d; exec sleep %d' & sleep 0.2; echo go; wait"):format(ours, ours),
        2, 2.1)
      assert.equal("go", line(p))
      local pids = assert(exec.exec { "pgrep", "-f", ("^sleep %d$"):format(ours) }).stdout
      assert.is_truthy(pids:find("%d+\n%d+\n"))
      p:wait()
      for pid in pids:gmatch("%d+") do assert.is_nil(state_of(pid), pid) end
    end)
  end)

  it("survives what is done to the command's group", function()
    run(function()
      local p = start("echo $$; trap '' TERM INT HUP; kill -STOP 0; sleep 300", 1.5, 1.6)
      local pid = line(p)
      assert.same({ "killed", KILL }, { p:wait(5) })
      assert.is_true(gone(pid))
    end)
    run(function()
      assert.same({ "killed", KILL }, { start("kill -KILL 0"):wait(5) })
    end)
  end)

  it("kills all at once when it is let go", function()
    run(function()
      local p = start("trap '' TERM; sleep 300 & echo $!; setsid -f sleep 300; sleep 300")
      local pid = line(p)
      p:close()
      assert.is_nil(state_of(pid))
    end)
  end)

  for name, number in pairs { killed = KILL, stopped = STOP } do
    it("lets nothing overstay when it is " .. name .. " itself", function()
      run(function()
        local p = start("sleep 300 & echo $$ $!; wait", 1.5, 1.6)
        local pid, child = line(p):match("(%d+) (%d+)")
        local began = core.now()
        signal(p:pid(), number)
        if number == KILL then assert.same({ "killed", KILL }, { p:wait(5) }) end
        assert.is_true(gone(pid))
        assert.is_true(gone(child))
        assert.is_true(number == KILL or core.now() - began >= 0.3)
        signal(p:pid(), CONT)
        assert.equal("killed", (p:wait(5)))
      end)
    end)
  end

  it("is made to go on at the deadline when it is stopped, and kills what has escaped from the group", function()
    for _, told_more in ipairs { false, true } do
      run(function()
        local p = start("trap '' TERM; setsid -f sh -c 'echo $$; exec sleep 300'; sleep 300", 0.5, 0.6)
        local pid = line(p)
        signal(p:pid(), STOP)
        if told_more then p:move(core.instant() + 300 * S, core.instant() + 300 * S) end
        assert.same({ "killed", KILL }, { p:wait(10) })
        assert.is_nil(state_of(pid))
      end)
    end
  end)

  it("lets nothing overstay when its pipe is full", function()
    run(function()
      local p = start("echo $$; sleep 300", 2, 2.1)
      local pid = line(p)
      signal(p:pid(), STOP)
      local told = 0
      while p:move(core.instant() + S, core.instant() + S) do told = told + 1 end
      assert.is_true(told > 1000)
      assert.is_true(gone(pid))
      p:close()
    end)
  end)

  it("ends with us, in whatever way we end, and leaves nothing", function()
    local folder <close> = sh.folder()
    folder:write("x.lua", [[
      local core, exec = require "synod.core", require "synod.exec"
      local p = core.process_spawn { file = "sh", env = exec.environment(), leash = true,
        args = { "sh", "-c", "sleep 300 & echo $$ $! > " .. arg[1] .. "; wait" } }
      io.open(arg[1] .. ".leash", "w"):write(p:pid()):close()
      p:wait()
    ]])
    for _, how in ipairs { "kill -KILL $us", "kill -STOP $leash; kill -KILL $us" } do
      local out = sh.run([[
        $SYNOD run "$DIR/x.lua" "$DIR/pid" & us=$!
        while ! [ -s "$DIR/pid" ] || ! [ -s "$DIR/pid.leash" ]; do sleep 0.01; done
        leash=$(cat "$DIR/pid.leash")
        ]] .. how .. [[; wait $us 2>/dev/null
        cat "$DIR/pid"; rm "$DIR/pid" "$DIR/pid.leash"; echo " $leash"
      ]], { dir = folder.path })
      local pids = 0
      run(function()
        for pid in out:gmatch("%d+") do
          pids = pids + 1
          assert.is_true(gone(pid), out)
        end
      end)
      assert.equal(3, pids, out)
    end
  end)

  it("gives the command default signals and no descriptor of ours", function()
    run(function()
      local p = start("exec grep -E 'Sig(Blk|Ign)' /proc/self/status")
      local text = ""
      for data in function() return p:read "stdout" end do text = text .. data end
      assert.matches("SigBlk:\t0+\n", text)
      assert.equal(0, tonumber(text:match("SigIgn:\t(%x+)\n"), 16) & ~(3 << 31))
      p = start("ls /proc/$$/fd")
      text = ""
      for data in function() return p:read "stdout" end do text = text .. data end
      assert.equal("0 1 2 ", (text:gsub("\n", " ")))
    end)
  end)

  it("keeps nothing open itself but what it needs", function()
    run(function()
      local p = start("echo go; sleep 300")
      assert.equal("go", line(p))
      local open = assert(exec.exec { "sh", "-c", ("ls -l /proc/%d/fd"):format(p:pid()) }).stdout
      for target in open:gmatch("%-> (%S+)") do
        assert.is_truthy(target:find("^pipe:") or target:find("^anon_inode:") or target == "/dev/tty", open)
      end
      p:close()
    end)
  end)

  it("leaves no zombie, neither of ours nor of its own", function()
    run(function()
      local p = start([[
        for i in 1 2 3 4 5; do sh -c 'sleep 0.01 &'; done
        for i in $(seq 50); do
          sleep 0.1; all=$(ps -o stat= -g $PPID)
          case $all in *Z*) ;; *) break ;; esac
        done
        echo "$all"
      ]])
      local all = ""
      for data in function() return p:read "stdout" end do all = all .. data end
      assert.is_nil(all:find("Z", 1, true), all)
      p:wait()
      local own = io.open("/proc/self/stat"):read("n")
      local children = assert(exec.exec { "ps", "-o", "stat=", "--ppid", own }).stdout
      local _, zombies = children:gsub("Z", "")
      assert.equal(0, zombies, children)
    end)
  end)
end)
