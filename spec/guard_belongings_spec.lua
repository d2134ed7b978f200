-- What belongs to a guard beside tasks: connections, listeners, commands, requests, and the lease on its blob.

local core = require "synod.core"
local guard = require "synod.lease.guard"
local net = require "synod.net"
local synod = require "synod"

require "synod.store"

local A, B = "aaaaaaaa-0000-4000-8000-00000000000a", "bbbbbbbb-0000-4000-8000-00000000000b"
local S = 1000000000

local function scope(soft, hard, options)
  options = options or {}
  local now = core.instant()
  options.soft, options.hard = now + math.floor(soft * S), now + math.floor(hard * S)
  return guard.scope(options)
end

local function closing(fn) return setmetatable({}, { __close = fn }) end

describe("a guard in real time", function()
  local function run(fn) return core.main(fn) end

  local function threads()
    local n = 0
    local pipe <close> = assert(io.popen("ls /proc/$PPID/task"))
    for _ in pipe:lines() do n = n + 1 end
    return n
  end

  --- The other end of a connection to us that was made by `connect`, as seen by a server: "open" or "closed".
  it("closes the connections and listeners that were made inside", function()
    run(function()
      local over = core.event()
      local outside <close> = assert(net.listen("127.0.0.1:0", function(conn)
        conn:read("line") -- nothing comes: its end does
        over:set(core.now())
      end))
      local address
      guard.run(guard.scope(), function()
        assert(net.connect(outside.address)) -- nobody keeps it, nobody closes it
        address = assert(net.listen("127.0.0.1:0", function() end)).address
        assert(net.connect(address)):close()
      end)
      assert.is_truthy(over:wait(5))
      local conn, err = net.connect(address)
      assert.is_nil(conn)
      assert.equal("ConnectionFailed", err.code)
    end)
  end)

  it("closes them at the hard stop, whatever the body does", function()
    run(function()
      local over = core.event()
      local outside <close> = assert(net.listen("127.0.0.1:0", function(conn)
        conn:read("line")
        over:set(core.instant())
      end))
      local s = scope(0.1, 0.2)
      local hard = core.instant() + 0.2 * S
      pcall(guard.run, s, function()
        local conn = assert(net.connect(outside.address))
        pcall(conn.read, conn, "line")
        pcall(conn.read, conn, "line")
      end)
      assert.is_true(over:wait(5) >= hard - 0.01 * S)
    end)
  end)

  it("leaves alone what was made outside", function()
    run(function()
      local listener <close> = assert(net.listen("127.0.0.1:0", function(conn)
        for line in conn:lines() do conn:write("echo ", line, "\n") end
      end))
      local conn <close> = assert(net.connect(listener.address))
      guard.run(guard.scope(), function() assert(conn:write("a\n")) conn:read("line") end)
      assert(conn:write("b\n"))
      assert.equal("echo b", conn:read("line"))
    end)
  end)

  it("leaves alone what serves the whole instance, whoever began it", function()
    run(function()
      local listener <close> = guard.run(guard.scope(), function()
        return assert(net.listen_apart("127.0.0.1:0", function(conn) conn:write("here\n") end))
      end)
      local conn <close> = assert(net.connect(listener.address))
      assert.equal("here", conn:read("line"))
    end)
  end)

  it("ends commands", function()
    run(function()
      local process
      guard.run(guard.scope(), function()
        core.spawn(function() synod.exec { "sleep", "100" } end)
        process = core.process_spawn { file = "sleep", args = { "sleep", "100" }, env = {} }:pid()
        core.sleep(0.05)
        assert(io.open("/proc/" .. process .. "/cmdline")):close()
      end)
      assert.is_nil(io.open("/proc/" .. process .. "/cmdline"))
    end)
  end)

  it("lets commands go on when its deadlines move", function()
    run(function()
      local s = scope(0.2, 0.3)
      local result = guard.run(s, function()
        core.spawn(function()
          local later = core.instant() + 100 * S
          s:move(later, later + S)
        end)
        return synod.exec { "sleep", "0.5" }
      end)
      assert.is_true(result.ok)
    end)
  end)

  it("is lost when its time has passed, before anybody has noticed", function()
    run(function()
      local s = scope(0.003, 10)
      local began = core.now()
      while core.now() < began + 0.006 do end
      local later = core.instant() + 100 * S
      s:move(later, later + S)
      assert.equal("LeaseLost", s:stopped().code)
    end)
  end)

  it("gives HTTP requests no more time than there is", function()
    run(function()
      local hang = core.event()
      local server <close> = assert(net.listen("127.0.0.1:0", function() hang:wait() end))
      local began = core.now()
      local status, err
      pcall(guard.run, scope(0.2, 5), function()
        local _ <close> = closing(function() -- where a stop is not raised
          status, err = synod.http { url = "http://" .. server.address .. "/", timeout = 4 }
        end)
      end)
      assert.is_nil(status)
      assert.equal("Timeout", err.code)
      assert.is_true(core.now() - began < 2)
      hang:set()
    end)
  end)

  it("costs nothing while there is none", function()
    local without, with
    run(function() core.sleep(0.001) without = threads() end)
    run(function() guard.run(guard.scope(), function() end) with = threads() end)
    assert.equal(without + 1, with) -- the watchdog
    run(function() assert.equal(without, threads()) end)
  end)
end)

describe("a store call in a guard", function()
  --- Runs fn(container, store) over a store of its own, under a virtual clock.
  local function run(fn, options)
    return core.main(function()
      local store <close> = assert(core.open_store("memory:", options))
      local container = store:container "flags"
      assert(container:create())
      return fn(container, store)
    end, { clock = "virtual", seed = 1 })
  end

  --- The result, its error's code, and when.
  local function call(blob, options)
    local body, err = blob:get(options)
    return { body or err.code, core.now() }
  end

  local SILENT = { faults = { { operation = "GetBlob", ordinal = 0, kind = "lost-request" } } }

  it("ends at the soft stop at the latest", function()
    run(function(container)
      local result
      pcall(guard.run, scope(2, 9), function()
        local _ <close> = closing(function() result = call(container:blob "x") end)
      end)
      assert.equal(2, result[2])
    end, SILENT)
  end)

  it("ends at the hard stop in clean-up", function()
    run(function(container)
      local result
      pcall(guard.run, scope(2, 5), function()
        local _ <close> = closing(function()
          core.sleep(3)
          result = call(container:blob "x", { timeout = 1.5 })
          call(container:blob "x")
        end)
      end)
      assert.equal(4.5, result[2])
      assert.equal(5, core.now())
    end, SILENT)
  end)

  it("keeps a shorter time of its own", function()
    run(function(container)
      local result
      guard.run(scope(5, 9), function() result = call(container:blob "x", { timeout = 1 }) end)
      assert.equal(1, result[2])
    end, SILENT)
  end)

  describe("that writes", function()
    --- Runs fn(leased blob, another leased blob, a leased blob of this name elsewhere) in a guard of the first lease.
    local function guarded(fn)
      run(function(container, store)
        local elsewhere = store:container "elsewhere"
        assert(elsewhere:create())
        local blobs = { container:blob "leader", container:blob "other", elsewhere:blob "leader" }
        for i, blob in ipairs(blobs) do
          assert(blob:put("0"))
          assert(blob:lease { id = i == 1 and A or B })
        end
        guard.run(guard.scope { blob = blobs[1], lease = A }, fn, table.unpack(blobs))
      end)
    end

    it("shows the lease to the leased blob", function()
      guarded(function(leader)
        assert(leader:put("1"))
        assert(leader:set_metadata { a = "b" })
        core.spawn(function() assert(leader:put("2")) end):join()
        assert.equal("2", (leader:get()))
      end)
    end)

    it("shows it no more when the guard has ended", function()
      local kept
      run(function(container)
        kept = container:blob "leader"
        assert(kept:put("0"))
        assert(kept:lease { id = A })
        guard.run(guard.scope { blob = kept, lease = A }, function() assert(kept:put("1")) end)
        assert.equal("LeaseIdMissing", select(2, kept:put("2")).code)
      end)
    end)

    it("shows it to nothing else", function()
      guarded(function(_, other, elsewhere)
        assert.equal("LeaseIdMissing", select(2, other:put("1")).code)
        assert.equal("LeaseIdMissing", select(2, elsewhere:put("1")).code)
        local store <close> = assert(core.open_store("memory:"))
        local container = store:container "flags"
        assert(container:create())
        assert(container:blob("leader"):put("1")) -- a lease id would be refused: it has no lease
      end)
    end)

    it("shows the caller's own instead, when there is one", function()
      guarded(function(leader)
        assert.equal("LeaseIdMismatchWithBlobOperation", select(2, leader:put("1", { lease = B })).code)
      end)
    end)

    it("shows it to appends, copies, blocks and deletes too", function()
      guarded(function(leader, other)
        assert(leader:copy_from(other))
        assert(leader:put(function(n) return n == 1 and ("x"):rep(10) or nil end))
        assert(leader:delete())
        assert.equal("LeaseNotPresentWithBlobOperation", select(2, leader:put("again")).code) -- it went with the blob
      end)
    end)

    it("finds the lease of an outer guard", function()
      guarded(function(leader)
        guard.run(guard.scope(), function() assert(leader:put("1")) end)
      end)
    end)
  end)
end)
