-- Reading standard input in a real process: as Lua reads it, without blocking the other tasks.

local sh = require "spec.support.sh"

local function shell(lua, script)
  local folder <close> = sh.folder()
  folder:write("x.lua", lua)
  return sh.run(script, { dir = folder.path, timeout = 20 })
end

describe("io.read", function()
  for _, case in ipairs {
    { [[io.read()]], "one\ntwo\n", "one" },
    { [[io.read("l", "L", "l")]], "one\ntwo\n", "one|two\n|nil" },
    { [[io.read("n", "n", "n", "l")]], " 42\n0x10 1e2 rest\n", "42|16|100.0| rest" },
    { [[io.read("n", "l")]], "word\n", "nil" },
    { [[io.read(2, 0, 3)]], "abcdefg", "ab||cde" },
    { [[io.read("a", "a", "l")]], "a\nb", "a\nb||nil" },
    { [[io.read(0)]], "", "nil" },
    { [[io.read("*l", "*a")]], "a\nb\nc", "a|b\nc" },
    { [[io.stdin:read(1), io.input():read("l"), io.type(io.stdin), tostring(io.stdin)]], "xyz\n",
      "x|yz|file|file (stdin)" },
  } do
    it("gives what Lua's own gives: " .. case[1], function()
      local lua = ([[
        local parts = table.pack(%s)
        for i = 1, parts.n do parts[i] = tostring(parts[i]) end
        io.write(table.concat(parts, "|"))
      ]]):format(case[1])
      local input = sh.quote(case[2])
      assert.equal(case[3], (shell(lua, "printf %s " .. input .. [[ | $SYNOD run "$DIR/x.lua"]])))
      if not case[1]:find("stdin", 1, true) then
        assert.equal(case[3], (shell(lua, "printf %s " .. input .. [[ | lua5.4 "$DIR/x.lua"]])))
      end
    end)
  end

  it("fails where standard input is closed, and nothing else takes its place", function()
    local out = shell([[
      print(io.read())
      print(require("synod").exec { "sh", "-c", "ls -l /proc/$PPID/fd/0 | sed 's/.*-> //'" }.stdout)
    ]], [[ $SYNOD run "$DIR/x.lua" <&- ]])
    assert.equal("nil\n/dev/null\n\n", out)
  end)

  it("iterates over lines", function()
    assert.equal("[a][][b]", (shell([[for line in io.lines() do io.write("[", line, "]") end]],
      [[ printf 'a\n\nb' | $SYNOD run "$DIR/x.lua" ]])))
  end)

  it("lets io.input choose a file, and io.lines a name", function()
    assert.equal("local name = arg[0]\n12\n", (shell([[local name = arg[0]
      io.input(name)
      print((io.read()))
      local size = 0
      for _ in io.lines(name) do size = size + 1 end
      io.input(io.stdin)
      print(io.read("n") + size - size)]], [[ echo 12 | $SYNOD run "$DIR/x.lua" ]])))
  end)

  it("lets the other tasks go on while it waits", function()
    local out = shell([[
      local synod = require "synod"
      local ticks = 0
      synod.spawn(function()
        for _ = 1, 5 do
          synod.sleep(0.01)
          ticks = ticks + 1
        end
      end)
      print(io.read(), ticks)
    ]], [[ { sleep 0.3; echo late; } | $SYNOD run "$DIR/x.lua" ]])
    assert.equal("late\t5\n", out)
  end)

  it("does so too when a signal cuts short its look whether there is something", function()
    local out = shell([[
      local synod = require "synod"
      local ticked = ...
      synod.spawn(function()
        synod.sleep(0.01)
        io.open(ticked, "w"):close()
      end)
      print(io.read())
    ]], sh.preload "interrupted.c" .. [[
      mkfifo "$DIR/in"
      preloaded $SYNOD run "$DIR/x.lua" "$DIR/ticked" <"$DIR/in" &
      exec 3>"$DIR/in"
      while ! [ -e "$DIR/ticked" ]; do sleep 0.01; done
      echo late >&3
      wait
    ]])
    assert.equal("late\n", out)
  end)

  it("is ended by a signal, with clean-up", function()
    local out, code = shell([[
      local _ <close> = setmetatable({}, { __close = function() print("cleaned up") end })
      print "up"
      io.stdout:flush()
      io.read()
    ]], [[
      mkfifo "$DIR/in"
      sleep 10 >"$DIR/in" & holder=$!
      $SYNOD run "$DIR/x.lua" <"$DIR/in" >"$DIR/out" & synod=$!
      while ! grep -qs up "$DIR/out"; do sleep 0.01; done
      kill -TERM $synod
      wait $synod
      code=$?
      kill $holder
      cat "$DIR/out"
      exit $code
    ]])
    assert.equal(143, code)
    assert.equal("up\ncleaned up\n", out)
  end)

  it("leaves a descriptor that it shares blocking", function()
    local out = shell([[io.read() print "read"]], [[
      { sleep 0.3; echo x; } | { $SYNOD run "$DIR/x.lua" & sleep 0.1; grep flags /proc/self/fdinfo/0; wait; } <&0
    ]])
    assert.equal(0, tonumber(out:match("flags:%s*(%d+)"), 8) & 2048)
    assert.matches("\n", out)
  end)

  it("takes no virtual time", function()
    if os.getenv("SYNOD_ASAN") then return pending("lua5.4 itself is not built for the sanitizers") end
    local out = shell([[
      package.path, package.cpath = "lua/?.lua;lua/?/init.lua", (os.getenv("SYNOD_LIB") or "build/lib") .. "/?.so"
      local synod = require "synod"
      require("synod.io").install(_G)
      synod.main(function()
        print((io.read()), synod.now())
        for i = 1, 200000 do print(i) end
        print("end", synod.now())
      end, { clock = "virtual" })
    ]], [[ { sleep 0.1; echo x; } | lua5.4 "$DIR/x.lua" | { sleep 0.2; sed -n '1p;$p'; } ]])
    assert.equal("x\t0.0\nend\t0.0\n", (out:gsub("\t0\n", "\t0.0\n")))
  end)
end)
