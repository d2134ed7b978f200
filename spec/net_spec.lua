-- TCP between tasks of one process: whole lines, back-pressure, ends and failures.

local core = require "synod.core"
local net = require "synod.net"
local synod = require "synod"

local function run(fn) return core.main(fn) end

--- Runs fn(conn, listener) against a server whose connections are handled by handler(conn, over); `over` is an event
--- that comes when fn has returned.
local function with_server(handler, fn)
  return run(function()
    local over = core.event()
    local listener <close> = assert(net.listen("127.0.0.1:0", function(conn) handler(conn, over) end))
    local conn <close> = assert(net.connect(listener.address))
    fn(conn, listener)
    over:set()
  end)
end

local function echo(conn)
  for line in conn:lines() do conn:write("echo ", line, "\n") end
end

--- Its peer may go away at any moment.
local function echo_until_closed(conn)
  while true do
    local line = conn:read("line")
    if not line or not conn:write(line, "\n") then return end
  end
end

describe("synod.listen and synod.connect", function()
  it("are what a script calls", function()
    assert.equal(net.listen, synod.listen)
    assert.equal(net.connect, synod.connect)
  end)

  it("choose a port for port 0, and say which", function()
    with_server(echo, function(_, listener)
      assert.matches("^127%.0%.0%.1:%d+$", listener.address)
      assert.not_equal("127.0.0.1:0", listener.address)
    end)
  end)

  for _, address in ipairs { "localhost:0", "[::1]:0", ":0" } do
    it("take the address " .. address, function()
      run(function()
        local listener <close> = assert(net.listen(address, echo))
        local conn <close> = assert(net.connect(":" .. listener.address:match("(%d+)$")))
        assert.is_true(conn:write("x\n"))
        assert.equal("echo x", conn:read("line"))
      end)
    end)
  end

  for _, address in ipairs { "host", "host:", "a:b:1", "[::1]", "host:70000", "", "ho st:1" } do
    it("refuse what is no address: '" .. address .. "'", function()
      local ok, err = pcall(run, function() net.connect(address) end)
      assert.is_false(ok)
      assert.matches("is no address", tostring(err))
    end)
  end

  it("say that nobody listens there", function()
    run(function()
      local listener = assert(net.listen("127.0.0.1:0", echo))
      listener:close()
      local conn, err = net.connect(listener.address)
      assert.is_nil(conn)
      assert.equal("ConnectionFailed", err.code)
      assert.matches("connect to 127.0.0.1:%d+: Connection refused", tostring(err))
    end)
  end)

  it("say that an address is in use", function()
    with_server(echo, function(_, listener)
      local other, err = net.listen(listener.address, echo)
      assert.is_nil(other)
      assert.equal("AddressInUse", err.code)
    end)
  end)

  it("say that a name is not known, without standing still meanwhile", function()
    run(function()
      local ticks = 0
      core.spawn(function()
        while true do
          core.sleep(0.001)
          ticks = ticks + 1
        end
      end):detach()
      local conn, err = net.connect("no-such-host.invalid:80", { timeout = 5 })
      assert.is_nil(conn)
      assert.is_true(err.code == "AddressNotFound" or err.code == "Timeout")
    end)
  end)

  it("do not stand still for a name server that hangs, nor at the end of the run", function()
    local sh = require "spec.support.sh"
    if select(2, sh.run("unshare -r -m -n true && command -v node ip")) ~= 0 then
      return pending("needs unshare, ip and node")
    end
    local folder <close> = sh.folder()
    folder:write("resolv.conf", "nameserver 127.0.0.1\noptions timeout:30 attempts:1\n")
    folder:write("silent.js", "require('dgram').createSocket('udp4').bind(53, '127.0.0.1', () => console.log('up'))")
    folder:write("x.lua", [[
      local synod = require "synod"
      local ticks, began = 0, synod.now()
      synod.spawn(function()
        while true do
          synod.sleep(0.01)
          ticks = ticks + 1
        end
      end):detach()
      local _, err = synod.connect("some-host.example:80", { timeout = 0.5 })
      print(err.code, ticks > 20, synod.now() - began < 2)
    ]])
    local out = sh.run([[ exec unshare -r -m -n sh -c '
      ip link set lo up
      mount --bind "$DIR/resolv.conf" /etc/resolv.conf
      node "$DIR/silent.js" >"$DIR/node" & node=$!
      while ! [ -s "$DIR/node" ]; do sleep 0.01; done
      timeout 10 $SYNOD run "$DIR/x.lua"
      echo "code $?"
      kill $node' ]], { dir = folder.path, timeout = 20 })
    assert.equal("Timeout\ttrue\ttrue\ncode 0\n", out)
  end)

  it("give up a connection that is not made in time", function()
    run(function()
      local began = core.now()
      local conn, err = net.connect("192.0.2.1:9", { timeout = 0.1 }) -- an address that nobody has
      assert.is_nil(conn)
      assert.is_true(err.code == "Timeout" or err.code == "ConnectionFailed")
      assert.is_true(core.now() - began < 2)
    end)
  end)

  it("serve each connection in a task of its own", function()
    run(function()
      local listener <close> = assert(net.listen("127.0.0.1:0", echo))
      local fns = {}
      for i = 1, 50 do
        fns[i] = function()
          local conn <close> = assert(net.connect(listener.address))
          conn:write(i, "\n")
          return conn:read("line")
        end
      end
      for i, line in ipairs(synod.all(fns)) do assert.equal("echo " .. i, line) end
    end)
  end)

  it("keep open connections when the listener is closed", function()
    with_server(echo, function(conn, listener)
      conn:write("a\n")
      assert.equal("echo a", conn:read("line"))
      listener:close()
      conn:write("b\n")
      assert.equal("echo b", conn:read("line"))
      assert.is_nil((net.connect(listener.address)))
    end)
  end)
end)

describe("a connection", function()
  it("reads lines that come in pieces, several at once, with either end of line", function()
    with_server(function(conn)
      conn:write("one\r\ntwo\nth")
      core.sleep(0.01)
      conn:write("ree\n\n")
    end, function(conn)
      assert.equal("one", conn:read("line"))
      assert.equal("two", conn:read("line"))
      assert.equal("three", conn:read("line"))
      assert.equal("", conn:read("line"))
      assert.same({ n = 1 }, table.pack(conn:read("line")))
    end)
  end)

  it("reads blocks, also of zero bytes, and what there is", function()
    with_server(function(conn) conn:write("ab\0cd", "efgh") end, function(conn)
      assert.equal("ab\0", conn:read(3))
      assert.equal("", conn:read(0))
      assert.equal("cdefgh", conn:read(6))
      assert.is_nil((conn:read("some")))
    end)
  end)

  it("tells an end in the middle from an end", function()
    for _, what in ipairs { "line", 10 } do
      with_server(function(conn) conn:write("abc") end, function(conn)
        local data, err = conn:read(what)
        assert.is_nil(data)
        assert.equal("ConnectionLost", err.code)
        assert.matches("after 3 bytes", tostring(err))
      end)
    end
  end)

  it("refuses a line that is too long, and does not take its rest for a line", function()
    with_server(function(conn) conn:write(("x"):rep(100), "\nnext\n") end, function(conn)
      local line, err = conn:read("line", { max = 50 })
      assert.is_nil(line)
      assert.equal("LineTooLong", err.code)
      assert.is_nil((conn:read("line")))
    end)
  end)

  it("moves much in both directions at once", function()
    local text = ("0123456789"):rep(1000000)
    with_server(function(conn)
      while true do
        local data = conn:read("some")
        if not data then break end
        assert(conn:write(data))
      end
    end, function(conn)
      local writer = core.spawn(function() return assert(conn:write(text)) end)
      assert.equal(text, conn:read(#text))
      assert.is_true(writer:join())
    end)
  end)

  it("makes the writer wait for a reader that does not read", function()
    with_server(function(_, over) over:wait() end, function(conn)
      local writer = core.spawn(function() return conn:write(("x"):rep(50000000)) end)
      local _, err = writer:join(0.1)
      assert.equal("Timeout", err.code)
      conn:close()
      _, err = writer:join()
      assert.equal("ConnectionLost", err.code)
    end)
  end)

  it("stops waiting when the time for reading is over, and keeps what came", function()
    with_server(function(conn, over)
      conn:write("be")
      core.sleep(0.1)
      conn:write("gin\n")
      over:wait()
    end, function(conn)
      local line, err = conn:read("line", { timeout = 0.05 })
      assert.is_nil(line)
      assert.equal("Timeout", err.code)
      assert.equal("begin", conn:read("line"))
    end)
  end)

  it("keeps what came when a reader is cancelled", function()
    with_server(function(conn, over)
      conn:write("be")
      core.sleep(0.05)
      conn:write("gin\n")
      over:wait()
    end, function(conn)
      local reader = core.spawn(conn.read, conn, "line")
      core.sleep(0.02)
      reader:cancel()
      local _, err = reader:join()
      assert.equal("Cancelled", err.code)
      assert.equal("begin", conn:read("line"))
    end)
  end)

  it("tells those who wait for it that it was closed", function()
    with_server(function(_, over) over:wait() end, function(conn)
      local reader = core.spawn(conn.read, conn, "line")
      core.sleep(0.01)
      conn:close()
      local data, err = reader:join()
      assert.is_nil(data)
      assert.equal("ConnectionLost", err.code)
      assert.equal("ConnectionLost", select(2, conn:write("x")).code)
      conn:close()
    end)
  end)

  it("is closed when its handler has returned or failed", function()
    run(function()
      local listener <close> = assert(net.listen("127.0.0.1:0", function(conn)
        pcall(error, conn:read("line"))
      end))
      local conn <close> = assert(net.connect(listener.address))
      conn:write("go\n")
      assert.is_nil((conn:read("line")))
    end)
  end)

  it("ends with the run that it belongs to", function()
    local address
    run(function()
      address = assert(net.listen("127.0.0.1:0", echo)).address
      core.exit(0)
    end)
    run(function() assert.is_nil((net.connect(address))) end)
  end)

  it("works while the clock is virtual", function()
    core.main(function()
      local listener <close> = assert(net.listen("127.0.0.1:0", function(conn)
        core.sleep(3600)
        conn:write("an hour later\n")
      end))
      local conn <close> = assert(net.connect(listener.address))
      assert.equal("an hour later", conn:read("line"))
      assert.equal(3600, core.now())
    end, { clock = "virtual" })
  end)

  it("survives cancels at any moment, on either side", function()
    run(function()
      local listener <close> = assert(net.listen("127.0.0.1:0", echo_until_closed))
      local tasks = {}
      for i = 1, 60 do
        tasks[i] = core.spawn(function()
          local conn <close> = assert(net.connect(listener.address))
          for j = 1, 20 do
            local text = ("z"):rep(i * j * 50)
            assert(conn:write(text, "\n"))
            assert.equal(text, assert(conn:read("line")))
          end
        end)
      end
      local cancelled = 0
      for i, task in ipairs(tasks) do
        if i % 3 == 0 then
          core.sleep(0.001)
          task:cancel()
        end
      end
      for _, task in ipairs(tasks) do
        local _, err = task:join()
        if task:failed() then
          assert.equal("Cancelled", type(err) == "table" and err.code or err)
          cancelled = cancelled + 1
        end
      end
      assert.is_true(cancelled > 0 and cancelled <= 20)
    end)
  end)

  it("may be closed by a finaliser of the script while a line of it becomes a string", function()
    run(function()
      local socket, theirs = core.stream_pair "a pair"
      local other = assert(core.stream_adopt(theirs, "the other"))
      assert(other:send(("a"):rep(15000) .. "\n", 1))
      assert(socket:fill())
      collectgarbage()
      collectgarbage("stop")
      collectgarbage("incremental", 10, 1000, 40) -- all of it in the first step
      setmetatable({}, { __gc = function() socket:close() end })
      local line = socket.line
      collectgarbage("restart")
      local text = line(socket)
      collectgarbage("incremental", 200, 100, 13)
      assert.equal(15000, #text)
      assert.is_true(socket:is_closed())
      assert.equal(0, socket:held())
      assert.is_false(socket:line())
      other:close()
    end)
  end)
end)
