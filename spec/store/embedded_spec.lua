-- The embedded store and its file: what is made, what is refused, what happens when the file goes bad. What its calls
-- answer is in blob_spec.lua, several processes on one file in embedded_processes_spec.lua.

local core = require "synod.core"
local sh = require "spec.support.sh"
local small_disk = require "spec.support.small_disk"
require "synod.store"

--- Runs fn with a folder and, opened, the store `s.db` in it.
local function with_store(fn, options)
  local folder <close> = sh.folder()
  core.main(function()
    local query = options and options.query or ""
    local store <close> = assert(core.open_store("embedded:" .. folder.path .. "/s.db" .. query))
    fn(store, folder)
  end, options)
end

local function open_error(path)
  return core.main(function()
    local store, err = core.open_store("embedded:" .. path)
    if store then store:close() end
    return err
  end)
end

--- Runs SQL on a store's file with other tools than synod.
local function sql(path, text)
  local output, code = sh.run("sqlite3 -bail " .. sh.quote(path) .. " " .. sh.quote(text))
  assert(code == 0, output)
  return (output:gsub("\n$", ""))
end

local function mode(path)
  return (sh.run("stat -c %a " .. sh.quote(path)):gsub("\n", ""))
end

local is_root = sh.run("id -u") == "0\n"

describe("the embedded store's file", function()
  it("is made with its folder, for its user alone", function()
    local folder <close> = sh.folder()
    local path = folder.path .. "/a/b/s.db"
    core.main(function()
      local store <close> = assert(core.open_store("embedded:" .. path))
      assert(store:container("flags"):create())
      for _, name in ipairs { "s.db", "s.db-wal", "s.db-shm", "s.db-lock", "s.db-wake" } do
        assert.equal("600", mode(folder.path .. "/a/b/" .. name), name)
      end
      assert.equal("700", mode(folder.path .. "/a/b"))
      assert.equal("700", mode(folder.path .. "/a"))
    end)
  end)

  it("keeps everything when it is closed and opened again", function()
    local folder <close> = sh.folder()
    local url = "embedded:" .. folder.path .. "/s.db"
    local before = core.main(function()
      local store <close> = assert(core.open_store(url))
      local c = store:container "flags"
      assert(c:create { metadata = { Owner = "me" } })
      assert(c:blob("b"):put(("x"):rep(100000) .. "\0end",
        { metadata = { CamelCase = "a=b, c" }, content_type = "text/plain" }))
      assert(c:blob("p"):put("", { type = "page", size = 1024 }))
      assert(c:blob("a"):put("", { type = "append" }))
      for i = 1, 5 do assert(c:blob("a"):append("line " .. i .. "\n")) end
      return c:blob("b"):head()
    end)
    core.main(function()
      local store <close> = assert(core.open_store(url))
      local c = store:container "flags"
      assert.same({ Owner = "me" }, c:head().metadata)
      local body, props = c:blob("b"):get()
      assert.equal(("x"):rep(100000) .. "\0end", body)
      assert.same(before, props)
      assert.same({ CamelCase = "a=b, c" }, props.metadata)
      assert.equal(("\0"):rep(1024), (c:blob("p"):get()))
      local log, log_props = c:blob("a"):get()
      assert.equal("line 1\nline 2\nline 3\nline 4\nline 5\n", log)
      assert.equal(5, log_props.committed_block_count)
      assert.equal("2\nline 3", (c:blob("a"):get { offset = 12, length = 8 }))
    end)
  end)

  it("may have any name and lie anywhere below the current folder", function()
    local folder <close> = sh.folder()
    folder:write("x.lua", "assert(require('synod').store:container('flags'):create())")
    for _, name in ipairs { ":memory:", "file:x", "plain", "a/b c/s.db", "./x", "%20" } do
      local output, code = sh.run([[SYNOD=$(readlink -f $SYNOD); cd $DIR && $SYNOD run --store "embedded:$NAME" x.lua &&
        sqlite3 "$DIR/$NAME" "SELECT name FROM containers"]], { dir = folder.path, env = { NAME = name } })
      assert.same({ "flags\n", 0 }, { output, code }, name)
    end
  end)

  it("can be read by a person", function()
    with_store(function(store, folder)
      local c = store:container "flags"
      assert(c:create())
      local props = assert(c:blob("flag_0"):put("", { type = "page", size = 512, metadata = { a = "x=y" } }))
      assert.equal("flags|flag_0|page|512|" .. props.etag .. "|a=x=y\n",
        sql(folder.path .. "/s.db", "SELECT container, name, type, length, etag, metadata FROM blobs"))
      assert.equal("flags", sql(folder.path .. "/s.db", "SELECT name FROM containers"))
    end)
  end)

  it("gives no ETag again, not even when it was removed and made anew", function()
    local folder <close> = sh.folder()
    local seen = {}
    for round = 1, 3 do
      core.main(function()
        local store <close> = assert(core.open_store("embedded:" .. folder.path .. "/s.db"))
        local c = store:container "flags"
        c:create()
        for _ = 1, 20 do
          local etag = assert(c:blob("b"):put("x")).etag
          assert.matches('^"0x8D%x+"$', etag)
          assert.is_nil(seen[etag], etag)
          seen[etag] = true
        end
        if round == 2 then os.execute("rm " .. folder.path .. "/s.db*") end
        core.sleep(round == 2 and 1.1 or 0) -- the new file's numbers begin with the second it was made in
      end)
    end
  end)

  it("dates writes in whole seconds and never before an earlier one", function()
    local folder <close> = sh.folder()
    local path = folder.path .. "/s.db"
    local function put_at(seconds)
      return core.main(function()
        core.sleep(seconds)
        local store <close> = assert(core.open_store("embedded:" .. path))
        local c = store:container "flags"
        c:create()
        return assert(c:blob("b"):put("x")).last_modified
      end, { clock = "virtual", seed = 1 })
    end
    local start = 1704067200 -- where every virtual clock begins
    assert.equal(start + 100, put_at(100.9))
    assert.equal(start + 100, put_at(50)) -- a clock that was set back
    assert.equal(start + 101, put_at(101))
  end)

  it("gives the same answers for the same calls under a virtual clock", function()
    local function trace()
      local lines = {}
      with_store(function(store)
        local c = store:container "flags"
        c:create()
        for i = 1, 20 do
          core.sleep(0.37)
          local props = assert(c:blob("b" .. i % 7):put("x", { metadata = { i = tostring(i) } }))
          lines[#lines + 1] = props.etag .. props.last_modified
        end
        for item in c:list { metadata = true } do lines[#lines + 1] = item.name .. item.etag .. item.metadata.i end
        lines[#lines + 1] = core.now()
      end, { clock = "virtual", seed = 7 })
      return lines
    end
    assert.same(trace(), trace())
  end)

  it("is written in the relaxed mode too", function()
    with_store(function(store)
      local c = store:container "flags"
      assert(c:create())
      for i = 1, 3000 do assert(c:blob("b" .. i % 10):put(("x"):rep(2000))) end -- longer than the log may get
      assert.equal(2000, c:blob("b5"):head().length)
    end, { query = "?relaxed" })
  end)

  it("holds up no task while a relaxed write removes much", function()
    with_store(function(store)
      local c, turns = store:container "flags", 0
      assert(c:create())
      local others = core.spawn(function()
        while true do
          turns = turns + 1
          core.yield()
        end
      end)
      --- Have others had a turn meanwhile? A call that is answered where it is gives none.
      local function others_run(fn)
        local before = turns
        assert(fn())
        return turns > before
      end
      local function put(name, size) assert(c:blob(name):put(("x"):rep(size))) end
      for _, name in ipairs { "delete", "put" } do
        local function change() return c:blob("b")[name](c:blob "b", name == "put" and "y" or nil) end
        put("b", 100000)
        assert.is_false(others_run(change), "small " .. name)
        put("b", 3000000)
        assert.is_true(others_run(change), "large " .. name)
        c:blob("b"):delete()
        assert(c:blob("b"):put("", { type = "append" }))
        assert(c:blob("b"):append "little")
        assert.is_false(others_run(change), "short log, " .. name)
        c:blob("b"):delete()
        assert(c:blob("b"):put("", { type = "append" }))
        for _ = 1, 70 do assert(c:blob("b"):append "little") end
        assert.is_true(others_run(change), "long log, " .. name)
      end
      do
        local left <close> = c:blob("b"):writer { block = 200000 } -- its blocks go with the next put
        assert(left:write(("x"):rep(1000000)))
        core.sleep(0.05)
      end
      assert.is_true(others_run(function() return c:blob("b"):put "y" end))
      assert.is_false(others_run(function() return c:blob("b"):put "z" end))
      assert.equal("z", (c:blob("b"):get()))
      others:cancel()
    end, { query = "?relaxed" })
  end)

  it("raises the mark with each write, also with those that are put on the disk together", function()
    with_store(function(store)
      local c = store:container "flags"
      assert(c:create())
      local place = { container = "flags", prefix = "deployment/" }
      local before, tasks = store:mark(place), {}
      for i = 1, 50 do
        tasks[i] = core.spawn(function() return assert(c:blob("deployment/" .. i):put "x") end)
      end
      for _, task in ipairs(tasks) do assert(task:join()) end
      assert.equal(before + 50, store:mark(place))
      assert.equal("ContainerNotFound", select(2, store:container("none"):blob("deployment/1"):put "x").code)
      assert.equal(before + 50, store:mark(place))
    end)
  end)

  it("keeps its log short however much is written", function()
    with_store(function(store, folder)
      local c = store:container "flags"
      assert(c:create())
      for i = 1, 40 do assert(c:blob("b" .. i % 3):put(("x"):rep(1000000))) end
      local size = tonumber((sh.run("stat -c %s " .. folder.path .. "/s.db-wal")))
      assert.is_true(size < 24 * 1024 * 1024, size)
    end, { query = "?relaxed" })
  end)
end)

describe("a file that cannot be the store's", function()
  it("may be a folder", function()
    local folder <close> = sh.folder()
    local err = open_error(folder.path)
    assert.equal("StoreReadOnly", err.code)
    assert.matches("is a folder, not a file", err.message)
  end)

  it("may be of another format, or damaged", function()
    local folder <close> = sh.folder()
    folder:write("s.db", ("this is no database. "):rep(100))
    local err = open_error(folder.path .. "/s.db")
    assert.equal("StoreCorrupt", err.code)
    assert.matches("restore it from a copy", tostring(err))
    assert.equal(("this is no database. "):rep(100), folder:read "s.db")
  end)

  it("may be a database of another program", function()
    local folder <close> = sh.folder()
    sql(folder.path .. "/s.db", "CREATE TABLE t (x)")
    local err = open_error(folder.path .. "/s.db")
    assert.equal("StoreCorrupt", err.code)
    assert.matches("is a database of another program", err.message)
    assert.equal("t", sql(folder.path .. "/s.db", "SELECT name FROM sqlite_schema"))
  end)

  it("may be of a newer version", function()
    local folder <close> = sh.folder()
    local path = folder.path .. "/s.db"
    assert.is_nil(open_error(path))
    sql(path, "PRAGMA user_version = 99")
    local err = open_error(path)
    assert.equal("NewerVersion", err.code)
    assert.matches("format 99, known here: %d", err.message)
    assert.matches("upgrade synod here first", tostring(err))
  end)

  it("may belong to another user", function()
    if not is_root then return pending("only root can give a file away") end
    local folder <close> = sh.folder()
    folder:write("s.db", "")
    os.execute("chown 65534 " .. folder.path .. "/s.db")
    local err = open_error(folder.path .. "/s.db")
    assert.equal("StoreForeign", err.code)
    assert.matches("belongs to another user %(id 65534%)", err.message)
  end)

  it("may not be writable", function()
    if not small_disk.is_possible then return pending("this machine does not let us mount") end
    local folder <close> = sh.folder()
    folder:write("x.lua", "require('synod').store:container('flags'):create()")
    local script = [[$SYNOD run --store embedded:$DIR/disk/s.db $DIR/x.lua &&
      mount -o remount,ro none $DIR/disk && $SYNOD run --store embedded:$DIR/disk/%s $DIR/x.lua]]
    for _, name in ipairs { "s.db", "new.db", "folder/new.db" } do
      local output, code = small_disk.run(folder, script:format(name), "1m")
      assert.equal(3, code, output)
      assert.matches("StoreReadOnly", output)
      assert.matches("Read%-only file system", output)
    end
  end)

  it("may be older: it is brought up to date and keeps what it held", function()
    local folder <close> = sh.folder()
    local path = folder.path .. "/s.db"
    assert.same({ "wal\n", 0 }, { sh.run("sqlite3 -bail " .. sh.quote(path) .. " < spec/store/version1.sql") })
    core.main(function()
      local store <close> = assert(core.open_store("embedded:" .. path))
      local body, props = store:container("flags"):blob("old"):get()
      assert.equal("kept", body)
      assert.same({ Who = "v1" }, props.metadata)
      assert.equal('"0x8D0000000000005"', props.etag)
      assert.equal('"0x8D0000000000007"', assert(store:container("flags"):blob("new"):put("x")).etag)
    end)
    assert.equal("5", sql(path, "PRAGMA user_version"))
    assert.equal("old|v1", sql(path, "SELECT name, substr(metadata, 5, 2) FROM blobs WHERE name = 'old'"))
  end)
end)

describe("an open store", function()
  it("says so when its file turns out to be damaged, and hides nothing", function()
    local folder <close> = sh.folder()
    local path = folder.path .. "/s.db"
    core.main(function()
      local store <close> = assert(core.open_store("embedded:" .. path))
      local c = store:container "flags"
      assert(c:create())
      for i = 1, 200 do assert(c:blob("b" .. i):put(("x"):rep(500))) end
    end)
    os.execute(("dd if=/dev/urandom of=%s bs=4096 seek=3 count=20 conv=notrunc 2>/dev/null"):format(path))
    core.main(function()
      local store <close> = assert(core.open_store("embedded:" .. path))
      local c, codes = store:container "flags", {}
      for i = 1, 200 do
        local body, err = c:blob("b" .. i):get { retries = 0 }
        if not body then codes[err.code] = true end
      end
      local _, err = c:blob("b1"):put("x", { retries = 0 })
      codes[err and err.code or "none"] = true
      assert.same({ StoreCorrupt = true }, codes)
    end)
  end)

  it("says so when a record's name is none that it gave", function()
    local folder <close> = sh.folder()
    local path = folder.path .. "/s.db"
    core.main(function()
      local store <close> = assert(core.open_store("embedded:" .. path))
      local seats = store:table "Seats"
      assert(seats:create() and seats:insert { partition = "p", row = "r" })
      sql(path, "UPDATE rows SET name = 'pr' WHERE kind = 6")
      local ok, err = pcall(function() for _ in seats:query() do end end)
      assert.same({ false, "StoreCorrupt" }, { ok, err.code })
    end)
  end)

  it("refuses to go on when its file was removed, replaced or moved away", function()
    for _, what in ipairs { "rm s.db s.db-wal", "rm s.db-wal", "mv s.db x && cp x s.db", "mv s.db elsewhere" } do
      with_store(function(store, folder)
        local b = store:container("flags"):blob "b"
        assert(store:container("flags"):create())
        assert(b:put("x"))
        os.execute("cd " .. folder.path .. " && " .. what)
        core.sleep(0.03)
        local _, err = b:put("y")
        assert.equal("StoreGone", err and err.code, what)
        assert.matches("was removed or replaced while it was in use", err.message)
        core.sleep(0.03)
        assert.equal("StoreGone", select(2, b:head()).code, what)
      end)
    end
  end)

  it("says so when the disk is full, loses nothing, and goes on when there is room", function()
    if not small_disk.is_possible then return pending("this machine does not let us mount") end
    local folder <close> = sh.folder()
    folder:write("x.lua", [[
      local synod = require "synod"
      local c = synod.store:container "flags"
      assert(c:create())
      local done, refusal = 0, nil
      repeat
        local ok, err = c:blob("b" .. done):put(("x"):rep(50000))
        if ok then done = done + 1 else refusal = err end
      until refusal or done == 1000
      print("refused: " .. tostring(refusal))
      local count = 0
      for item in c:list() do
        assert(item.length == 50000 and #c:blob(item.name):get() == 50000)
        count = count + 1
      end
      print("kept: " .. tostring(count == done and done > 3))
      local tasks, many = {}, 0 -- writes that stand in line together: each has its own answer
      for i = 1, 40 do
        tasks[i] = synod.spawn(function() return c:blob("m" .. i):put(("x"):rep(i % 4 == 0 and 30000 or 10)) ~= nil end)
      end
      for _, task in ipairs(tasks) do if task:join() then many = many + 1 end end
      for _ in c:list { prefix = "m" } do many = many - 1 end
      print("each: " .. many)
      os.execute("rm " .. arg[1])
      print("goes on: " .. tostring((c:blob("more"):put(("x"):rep(50000))) ~= nil))]])
    local output, code = small_disk.run(folder, [[dd if=/dev/zero of=$DIR/disk/fill bs=1k count=2000 2>/dev/null;
      $SYNOD run --store embedded:$DIR/disk/s.db $DIR/x.lua $DIR/disk/fill]], "4m")
    assert.equal(0, code, output)
    assert.matches("refused: [^\n]*StoreFull", output)
    assert.matches("free some space", output)
    assert.matches("kept: true", output)
    assert.matches("each: 0", output)
    assert.matches("goes on: true", output)
  end)

  it("says the same when a limit on the size of files is reached", function()
    local folder <close> = sh.folder()
    folder:write("x.lua", [[
      local c = require("synod").store:container "flags"
      assert(c:create())
      local done, err = 0, nil
      repeat
        local ok, why = c:blob("b" .. done):put(("x"):rep(5000))
        if ok then done = done + 1 else err = why end
      until err or done == 100
      for _ in c:list() do done = done - 1 end
      print(err and err.code, done)]])
    local output, code = sh.run("ulimit -f 200; trap '' XFSZ; $SYNOD run --store embedded:$DIR/s.db $DIR/x.lua",
      { dir = folder.path })
    assert.same({ "StoreFull\t0\n", 0 }, { output, code })
  end)

  it("answers at the deadline though the disk stands still in the middle of a write", function()
    local tools = "mkfs.ext4 -V && fsfreeze --version && losetup --version && command -v unshare"
    if not is_root or select(2, sh.run(tools)) ~= 0 then return pending("no disk can be made to stand still here") end
    local folder <close> = sh.folder()
    folder:write("x.lua", [[
      local synod = require "synod"
      local b = synod.store:container("flags"):blob "b"
      assert(synod.store:container("flags"):create())
      assert(b:put "1")
      assert(os.execute "fsfreeze -f disk && touch frozen")
      local ticks = 0
      local ticker = synod.every(0.01, function() ticks = ticks + 1 end)
      local before = synod.now()
      local ok, err = b:put("2", { timeout = 0.4, retries = 0 })
      local took = synod.now() - before
      ticker:cancel()
      print(ok, err.code, took >= 0.39 and took < 1.4, ticks >= 3)
      assert(b:put "3")
      print((b:get()))]])
    local output, code = sh.run([[
      export SYNOD=$(readlink -f $SYNOD)
      cd $DIR && truncate -s 16M image && mkfs.ext4 -q image && mkdir disk && unshare -m sh -c '
        mount -o loop image disk && {
          (until [ -e frozen ]; do sleep 0.02; done; sleep 1.5; fsfreeze -u disk) &
        } && "$SYNOD" run --store embedded:disk/s.db x.lua
        code=$?; wait; umount disk; exit $code']], { dir = folder.path, timeout = 20 })
    assert.equal(0, code, output)
    assert.equal("nil\tTimeout\ttrue\ttrue\n3\n", output)
  end)

  it("checks leases: before the conditions, by their state and time, in this boot", function()
    local folder <close> = sh.folder()
    local path = folder.path .. "/s.db"
    local id, other = "6c6f5f2e-9d6f-4d1c-8e0a-0123456789ab", "00000000-0000-0000-0000-000000000001"
    core.main(function()
      local store <close> = assert(core.open_store("embedded:" .. path))
      local b = store:container("flags"):blob "b"
      assert(store:container("flags"):create())
      assert(b:put("x"))
      local boot = io.open("/proc/sys/kernel/random/boot_id"):read("l")
      local function lease(seconds, ending, break_end, in_boot)
        sql(path, ("UPDATE rows SET lease_id = '%s', lease_seconds = %s, lease_end = %s, lease_break_end = %s, "
          .. "lease_boot = '%s' WHERE name = 'b'")
          :format(id, seconds, ending or "NULL", break_end or "NULL", in_boot or boot))
      end
      local function code(ok, err) return ok and "ok" or err.code .. err.status end
      local function state()
        local p = b:head()
        return p.lease_state .. " " .. p.lease_status .. " " .. tostring(p.lease_duration)
      end
      local far = math.floor((core.now() + 1000) * 1e9)

      assert.equal("LeaseNotPresentWithBlobOperation412", code(b:put("y", { lease = id })))
      lease(60, far)
      assert.equal("leased locked fixed", state())
      assert.equal("LeaseIdMissing412", code(b:put("y")))
      assert.equal("LeaseIdMissing412", code(b:put("y", { if_none_match = "*" })))
      assert.equal("LeaseIdMissing412", code(b:delete()))
      assert.equal("LeaseIdMissing412", code(b:set_metadata {}))
      assert.equal("LeaseIdMismatchWithBlobOperation412", code(b:put("y", { lease = other })))
      assert.equal("LeaseIdMismatchWithBlobOperation412", code(b:head { lease = other }))
      assert.equal("ok", code(b:get()))
      assert.equal("ok", code(b:put("y", { lease = id:upper() })))
      assert.equal("leased locked fixed", state()) -- it outlives an overwrite
      assert.equal("BlobAlreadyExists409", code(b:put("y", { lease = id, if_none_match = "*" })))
      lease(-1)
      assert.equal("leased locked infinite", state())
      lease(60, far, far)
      assert.equal("breaking locked nil", state())
      assert.equal("LeaseIdMissing412", code(b:put("y")))
      assert.equal("ok", code(b:put("y", { lease = id })))
      assert.equal("breaking locked nil", state())
      for how, set in pairs {
        expired = function() lease(60, 1) end, broken = function() lease(60, far, 1) end,
      } do
        set()
        assert.equal(how .. " unlocked nil", state())
        local word = how == "expired" and "LeaseLost" or "LeaseNotPresentWithBlobOperation"
        assert.equal(word .. "412", code(b:put("y", { lease = id })))
        assert.equal("ok", code(b:set_metadata {}))
        assert.equal("available unlocked nil", state())
      end
      lease(60, far, nil, "another boot")
      assert.equal("expired unlocked nil", state())
    end)
  end)
end)

describe("a file system that is not of this machine", function()
  it("is refused", function()
    if not is_root or not select(1, io.open("/dev/fuse")) then return pending("nothing remote can be mounted here") end
    local folder <close> = sh.folder()
    local output, code = sh.run([[cc -o $DIR/fuse spec/support/fuse.c && mkdir $DIR/disk && unshare -m sh -c \
      '"$DIR"/fuse "$DIR"/disk "$SYNOD" store ls --store embedded:"$DIR"/disk/s.db']], { dir = folder.path })
    assert.equal(3, code, output)
    assert.matches("StoreRemote", output)
  end)
end)
