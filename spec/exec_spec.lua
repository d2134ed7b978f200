-- Commands, as real processes: results, ends, limits, and that none is left behind.

local core = require "synod.core"
local exec = require "synod.exec"
local synod = require "synod"

local function run(fn, ...) return core.main(fn, {}, ...) end

--- Runs one command in a run of its own.
local function command(options) return run(exec.exec, options) end

--- The state letter of a process, or nil when there is none (a zombie has ended).
local function state_of(pid)
  local file <close> = io.open("/proc/" .. pid .. "/stat")
  local state = file and file:read("a"):match("%) (%a)")
  return state ~= "Z" and state or nil
end

local function wait_until_gone(pid)
  local deadline = core.now() + 3
  while state_of(pid) and core.now() < deadline do core.sleep(0.005) end
  return state_of(pid) == nil
end

describe("synod.exec", function()
  it("is what a script calls", function()
    assert.equal(exec.exec, synod.exec)
  end)

  it("gives what the command wrote, and how it ended", function()
    local r = command { "sh", "-c", "echo out; echo err >&2; exit 3" }
    assert.same({ ok = false, code = 3, stdout = "out\n", stderr = "err\n" }, r)
    assert.same({ ok = true, code = 0, stdout = "", stderr = "" }, command { "true" })
  end)

  it("gives the signal that ended it, and the code a shell would give", function()
    local r = command { "sh", "-c", "kill -TERM $$" }
    assert.same({ ok = false, code = 143, signal = 15, stdout = "", stderr = "" }, r)
  end)

  it("hands arguments over as they are, without a shell", function()
    local r = command { "printf", "%s|", "a b", "$HOME", "'", "", 7 }
    assert.equal("a b|$HOME|'||7|", r.stdout)
  end)

  it("keeps a stream for the task that waits for it, until that one has had its turn", function()
    local text, other = ("a"):rep(1000000), ("b"):rep(50)
    local out, tries = "", 0
    run(function()
      local p = assert(core.process_spawn {
        file = "cat", args = { "cat" }, env = exec.environment(), stdin = "pipe", stdout = "pipe",
      })
      local first = core.spawn(function()
        local from = 1
        while from <= #text do from = from + p:write(text, from) end
      end)
      local second = core.spawn(function()
        while true do
          local ok, n = pcall(p.write, p, other)
          if ok and n > 0 then break end
          tries = tries + 1
          core.yield()
        end
      end)
      core.spawn(function()
        first:join()
        second:join()
        p:shut "stdin"
      end)
      for data in function() return p:read "stdout" end do out = out .. data end
      p:wait()
    end)
    assert.is_true(tries > 0)
    assert.is_true(out == text .. other)
  end)

  it("feeds standard input, also more than a pipe holds", function()
    local text = ("0123456789abcdef"):rep(100000)
    assert.equal(text, command({ "cat", stdin = text }).stdout)
  end)

  it("does not mind a command that reads no input", function()
    assert.is_true(command({ "true", stdin = ("x"):rep(1000000) }).ok)
  end)

  it("gives an empty standard input by default", function()
    assert.equal("0\n", command({ "wc", "-c" }).stdout:gsub(" ", ""))
  end)

  it("runs in the directory, with the variables", function()
    local r = command { "sh", "-c", "pwd; echo $SPEC_A-$HOME", cwd = "/usr", env = { SPEC_A = "1", HOME = false } }
    assert.equal("/usr\n1-\n", r.stdout)
  end)

  it("looks for the command in the PATH that it is given", function()
    local r, err = command { "ls", env = { PATH = "/nonexistent" } }
    assert.is_nil(r)
    assert.equal("CommandNotFound", err.code)
  end)

  for _, case in ipairs {
    { { "no-such-command-anywhere" }, "CommandNotFound", "no%-such%-command%-anywhere.*no such command" },
    { { "/etc/passwd" }, "CommandNotRun", "/etc/passwd.*Permission denied" },
    { { "true", cwd = "/nonexistent" }, "CommandNotRun", "/nonexistent.*directory" },
  } do
    it("says why it could not run: " .. case[2] .. " " .. case[1][1], function()
      local r, err = command(case[1])
      assert.is_nil(r)
      assert.equal(case[2], err.code)
      assert.matches(case[3], tostring(err))
    end)
  end

  it("raises what the caller got wrong", function()
    for _, options in ipairs {
      {}, { {} }, { "true", timeout = -1 }, { "true", stdin = 5 }, { "true", stdout = "x" },
    } do
      assert.is_false(pcall(command, options))
    end
  end)

  it("raises an unknown option and what no command can be given", function()
    local wrong = {
      [{ "true", timout = 5 }] = "unknown option 'timout'",
      [{ "true", env = 5 }] = "env must be a table, not a number",
      [{ "true", env = { "A=1" } }] = "env may hold only names",
      [{ "true", env = { A = "a\0b" } }] = "env.A holds a zero byte",
      [{ "a\0b" }] = "argument 1 holds a zero byte",
      [{ "true", max_output = "9" }] = "max_output must be a whole number of bytes",
      [{ "true", max_output = -1 }] = "max_output must be a whole number of bytes",
    }
    run(function()
      for options, why in pairs(wrong) do
        local ok, err = pcall(function() exec.exec(options) end)
        assert.is_false(ok, why)
        assert.matches("exec_spec.lua:%d+: synod.exec: ", err)
        assert.truthy(err:find(why, 1, true), err)
      end
    end)
  end)

  it("does not let commands see the credentials", function()
    local sh = require "spec.support.sh"
    local folder <close> = sh.folder()
    folder:write("x.lua", [[
      local synod = require "synod"
      io.write(synod.exec{"env"}.stdout)
    ]])
    local env = {
      AZURE_STORAGE_CONNECTION_STRING = "AccountKey=c2VjcmV0", SYNOD_STORE = "AccountName=a;AccountKey=c2VjcmV0",
    }
    local hidden, code = sh.run([[ exec $SYNOD run "$DIR/x.lua" ]], { dir = folder.path, env = env })
    assert.equal(0, code, hidden)
    assert.is_nil(hidden:find("c2VjcmV0", 1, true))
    assert.truthy(hidden:find("PATH=", 1, true))
    local shown = sh.run([[ exec $SYNOD run --pass-credentials "$DIR/x.lua" ]], { dir = folder.path, env = env })
    assert.truthy(shown:find("AZURE_STORAGE_CONNECTION_STRING=AccountKey=c2VjcmV0", 1, true))
  end)

  it("lets the other tasks go on meanwhile", function()
    local ticks = 0
    run(function()
      core.spawn(function()
        for _ = 1, 5 do
          core.sleep(0.01)
          ticks = ticks + 1
        end
      end)
      assert(exec.exec { "sleep", "0.2" })
      assert.equal(5, ticks)
    end)
  end)

  it("ends a command that is out of time, TERM first", function()
    local name = os.tmpname()
    local script = ("trap 'echo term >%s; exit 0' TERM; sleep 60 & wait"):format(name)
    local r, err = command { "sh", "-c", script, timeout = 0.1 }
    assert.is_nil(r)
    assert.equal("term", io.lines(name)())
    os.remove(name)
    assert.equal("Timeout", err.code)
    assert.matches("sh.*within 0.1 s", tostring(err))
  end)

  it("ends a command that writes too much", function()
    local r, err = command { "cat", "/dev/zero", max_output = 100000 }
    assert.is_nil(r)
    assert.equal("OutputTooLarge", err.code)
  end)

  it("kills what a command leaves in its group", function()
    run(function()
      local r = assert(exec.exec { "sh", "-c", "sleep 300 & echo $!" })
      assert.is_true(wait_until_gone(r.stdout:match("%d+")))
    end)
  end)

  it("does not wait for a daemon that keeps its output open", function()
    run(function()
      local began = core.now()
      local r = assert(exec.exec { "setsid", "-f", "sh", "-c", "echo $$; exec sleep 300" })
      local pid = r.stdout:match("%d+")
      assert.is_true(r.ok)
      assert.is_true(core.now() - began < 5)
      if pid then os.execute("kill " .. pid) end
    end)
  end)

  it("kills the whole group when it is cancelled, and has ended then", function()
    run(function()
      local name = os.tmpname()
      local script = ("echo $$ >%s; sleep 300 & echo $! >>%s; wait"):format(name, name)
      local task = core.spawn(exec.exec, { "sh", "-c", script })
      local pids
      repeat
        core.sleep(0.01)
        pids = {}
        for line in io.lines(name) do pids[#pids + 1] = line end
      until #pids == 2
      task:cancel()
      local _, err = task:join()
      assert.equal("Cancelled", err.code)
      assert.is_nil(state_of(pids[1]))
      assert.is_true(wait_until_gone(pids[2]))
      os.remove(name)
    end)
  end)

  it("can be cancelled at any moment, whatever it is about to do", function()
    run(function()
      local tasks, cancelled = {}, 0
      for i = 1, 60 do
        tasks[i] = core.spawn(exec.exec, {
          "sh", "-c", "echo x; cat >/dev/null; sleep 300 &", stdin = ("y"):rep(i % 3 * 100000),
        })
      end
      for i, task in ipairs(tasks) do
        if i % 2 == 0 then core.sleep(0.001) end
        task:cancel()
        task:join()
        if task:failed() then cancelled = cancelled + 1 end
      end
      assert.is_true(cancelled > 0)
    end)
  end)

  it("ends with the run that it belongs to", function()
    local process
    run(function()
      process = assert(core.process_spawn { file = "sleep", args = { "sleep", "300" }, env = exec.environment() })
      assert.truthy(state_of(process:pid()))
      process = process:pid()
    end)
    assert.is_nil(state_of(process))
  end)

  it("ends when we are killed, with what it has started", function()
    local sh = require "spec.support.sh"
    local folder <close> = sh.folder()
    folder:write("x.lua", [[
      local synod = require "synod"
      synod.exec { "sh", "-c", "echo $$ > " .. arg[1] .. "; sleep 300 & echo $! >> " .. arg[1] .. "; wait" }
    ]])
    local pids = sh.run([[
      $SYNOD run "$DIR/x.lua" "$DIR/pid" & synod=$!
      while ! [ "$(grep -cs . "$DIR/pid")" = 2 ]; do sleep 0.01; done
      kill -KILL $synod
      wait $synod 2>/dev/null
      cat "$DIR/pid"
    ]], { dir = folder.path })
    local parent, child = pids:match("(%d+)\n(%d+)")
    run(function()
      assert.is_true(wait_until_gone(parent))
      assert.is_true(wait_until_gone(child))
    end)
  end)

  it("leaves no zombie of ours", function()
    run(function()
      for _ = 1, 5 do assert(exec.exec { "sh", "-c", "sleep 300 &" }) end
      local own = io.open("/proc/self/stat"):read("n")
      local children = assert(exec.exec { "ps", "-o", "stat=", "--ppid", own }).stdout
      local _, zombies = children:gsub("Z", "")
      assert.equal(0, zombies, children)
    end)
  end)

  it("gives the command default signals and no descriptor of ours", function()
    -- asked of itself: a shell blocks all signals for a moment when it starts a command
    local signals = command({ "grep", "-E", "Sig(Blk|Ign)", "/proc/self/status" }).stdout
    assert.matches("SigBlk:\t0+\n", signals)
    -- 32 and 33 are the C library's own: it lets nobody set them
    assert.equal(0, tonumber(signals:match("SigIgn:\t(%x+)\n"), 16) & ~(3 << 31))
    local descriptors = command({ "sh", "-c", "ls /proc/$$/fd" }).stdout
    assert.equal("0 1 2 ", (descriptors:gsub("\n", " ")))
  end)

  it("runs 50 at once", function()
    run(function()
      local fns = {}
      for i = 1, 50 do fns[i] = function() return assert(exec.exec { "echo", i }).stdout end end
      for i, text in ipairs(synod.all(fns)) do assert.equal(i .. "\n", text) end
    end)
  end)

  it("takes no virtual time", function()
    core.main(function()
      assert.equal("x\n", assert(exec.exec { "sh", "-c", "sleep 0.05; echo x" }).stdout)
      assert.equal(0, core.now())
    end, { clock = "virtual" })
  end)
end)
