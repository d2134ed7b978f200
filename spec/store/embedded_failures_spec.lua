-- What entities and messages come to when several processes write and the disk is full, or the file is removed
-- underneath: what was acknowledged is there, what was refused is not, nothing is torn and no message is there twice.
-- The same for blobs is in embedded_spec.lua, killed writers are in embedded_processes_spec.lua.

local core = require "synod.core"
local sh = require "spec.support.sh"
local small_disk = require "spec.support.small_disk"

local WRITERS = 3

--- What a writer does; it says what was acknowledged and what was refused in a file of its own, one a line.
local WRITER = [[
  local synod = require "synod"
  local me, seats, mail = arg[1], synod.store:table "Seats", synod.store:queue "mail"
  local told = assert(io.open("told-" .. me, "w"))
  told:setvbuf "no"
  assert(seats:create())
  assert(mail:create())
  local n, refused = { entity = 0, batch = 0, message = 0 }, {}

  local function tell(what, ok, err, ...)
    if ok then n[what] = n[what] + 1 end
    told:write(what, " ", ok and "done" or err.code, "\n")
    refused[what] = not ok and err.code or nil
    return ok, err, ...
  end

  function step_entity()
    local i = n.entity + 1
    tell("entity", seats:upsert { partition = me, row = "one", n = i, text = tostring(i):rep(2000) })
  end

  function step_batch()
    local i, list = n.batch + 1, {}
    for k = 1, 4 do
      list[k] = { upsert = { partition = me, row = "batch" .. k, n = i, text = tostring(i):rep(2000 * k) } }
    end
    tell("batch", seats:batch(list))
  end

  function step_message() -- the same one again until it is taken
    tell("message", mail:put(("%s %d "):format(me, n.message + 1) .. ("x"):rep(3000), { ttl = -1 }))
  end

  function step()
    for _, what in ipairs { "entity", "batch", "message" } do _G["step_" .. what]() end
    return refused
  end
]]

--- What the writers were told: how often each thing was done, and which refusals there were.
local function told(folder)
  local done, codes = {}, {}
  for w = 1, WRITERS do
    done[w] = { entity = 0, batch = 0, message = 0 }
    for what, word in assert(folder:read("told-" .. w)):gmatch "(%a+) (%a+)\n" do
      if word == "done" then done[w][what] = done[w][what] + 1 else codes[word] = true end
    end
  end
  return done, codes
end

--- How often each message of a store can be taken.
local function messages(store)
  local count = {}
  local list
  repeat
    list = assert(store:queue("mail"):get { n = 32, visibility = 3600 })
    for _, message in ipairs(list) do
      local name = message.body:match "^%d+ %d+"
      count[name] = (count[name] or 0) + 1
      assert.equal(3000, #message.body:match " (x*)$")
    end
  until #list == 0
  return count
end

local function entity_n(seats, partition, row, times)
  local e = seats:get(partition, row)
  if not e then return 0 end
  assert.equal(tostring(e.n):rep(2000 * times), e.text, "torn: " .. partition .. " " .. row)
  return e.n
end

--- A store's file against what the writers were told. The first write that was told that the file is gone may have been
--- made before that (`in_doubt` = 1), as all or nothing.
local function check(path, done, in_doubt)
  local function is(expected, n, what)
    assert.is_true(n == expected or n == expected + in_doubt, ("%s: %d of %d"):format(what, n, expected))
  end
  core.main(function()
    local store <close> = assert(core.open_store("embedded:" .. path))
    local seats, there = store:table "Seats", messages(store)
    for w = 1, WRITERS do
      local me = tostring(w)
      is(done[w].entity, entity_n(seats, me, "one", 1), "entity " .. me)
      local first = entity_n(seats, me, "batch1", 1)
      is(done[w].batch, first, "batch " .. me)
      for k = 2, 4 do assert.equal(first, entity_n(seats, me, "batch" .. k, k)) end
      for i = 1, done[w].message + in_doubt do
        local name = ("%d %d"):format(w, i)
        assert.equal(1, there[name] or (i > done[w].message and 1 or 0), name)
        there[name] = nil
      end
    end
    assert.same({}, there)
  end)
end

describe("entities and messages of several writers", function()
  for _, query in ipairs { "", "?relaxed" } do
    it("are whole, and each as it was acknowledged, when the disk is full" .. query, function()
      if not small_disk.is_possible then return pending("this machine does not let us mount") end
      local folder <close> = sh.folder()
      folder:write("write.lua", WRITER .. [[
        local function until_refused(times)
          local all = { entity = 0, batch = 0, message = 0 }
          repeat
            for what in pairs(step()) do all[what] = all[what] + 1 end
          until all.entity >= times and all.batch >= times and all.message >= times
        end
        until_refused(5)
        io.open("full-" .. me, "w"):close()
        while os.rename("disk/fill", "disk/fill") do step() end -- not after it is gone: that would fill the disk again
        while not io.open("room") do synod.sleep(0.01) end
        repeat until not next(step()) -- nothing is refused any more
        for _ = 1, 5 do assert(not next(step())) end]])
      local output, code = small_disk.run(folder, ([[export SYNOD=$(readlink -f $SYNOD); cd $DIR &&
        dd if=/dev/zero of=disk/fill bs=1k count=3000 2>/dev/null
        for w in 1 2 3; do $SYNOD run --store "embedded:disk/s.db%s" write.lua $w & pids="$pids $!"; done
        for i in $(seq 400); do [ -e full-1 ] && [ -e full-2 ] && [ -e full-3 ] && break; sleep 0.05; done
        rm disk/fill; touch room
        for pid in $pids; do wait $pid || echo "a writer failed"; done
        mkdir kept && cp disk/s.db* kept/]]):format(query), "6m")
      assert.same({ "", 0 }, { output, code })
      local done, codes = told(folder)
      assert.same({ StoreFull = true }, codes)
      for w = 1, WRITERS do assert.is_true(done[w].message > 5 and done[w].batch > 5, w) end
      check(folder.path .. "/kept/s.db", done, 0)
    end)

    it("are all in the file that was removed, and in no other, when it is removed underneath" .. query, function()
      local folder <close> = sh.folder()
      folder:write("write.lua", WRITER .. [[
        repeat
          local codes = step()
          if n.batch == 10 then io.open("begun-" .. me, "w"):close() end
        until codes.entity and codes.batch and codes.message]])
      local output, code = sh.run(([[export SYNOD=$(readlink -f $SYNOD); cd $DIR
        for w in 1 2 3; do $SYNOD run --store "embedded:s.db%s" write.lua $w & pids="$pids $!"; done
        for i in $(seq 400); do [ -e begun-1 ] && [ -e begun-2 ] && [ -e begun-3 ] && break; sleep 0.05; done
        ln s.db kept.db; ln s.db-wal kept.db-wal; rm s.db s.db-wal s.db-shm
        for pid in $pids; do wait $pid || echo "a writer failed"; done; ls s.db 2>&1]]):format(query),
        { dir = folder.path })
      assert.same({ "ls: cannot access 's.db': No such file or directory\n", 2 }, { output, code })
      local done, codes = told(folder)
      assert.same({ StoreGone = true }, codes)
      for w = 1, WRITERS do assert.is_true(done[w].message >= 9, w) end
      check(folder.path .. "/kept.db", done, 1)
    end)
  end

  it("are not written any more once one was told that the file is gone, on whichever thread", function()
    for _ = 1, 5 do -- within 20 ms of the look before, or the next write looks for itself
      local folder <close> = sh.folder()
      local path = folder.path .. "/s.db"
      core.main(function()
        local store <close> = assert(core.open_store("embedded:" .. path .. "?relaxed"))
        local seats, mail = store:table "Seats", store:queue "mail"
        assert(seats:create() and mail:create())
        local function batch(n) return seats:batch { { upsert = { partition = "p", row = "r", n = n } } } end
        assert(sh.run("cd $DIR; ln s.db kept.db; ln s.db-wal kept.db-wal", { dir = folder.path }) == "")
        assert(batch(1)) -- on the store's thread
        assert(mail:put "before", "a look on the thread of the loop")
        assert(os.remove(path))
        assert.equal("StoreGone", select(2, batch(2)).code) -- in doubt
        for _ = 1, 3 do assert.equal("StoreGone", select(2, mail:put "after").code) end
      end)
      core.main(function()
        local store <close> = assert(core.open_store("embedded:" .. folder.path .. "/kept.db"))
        assert.equal(1, assert(store:queue("mail"):count()))
        assert.is_true(assert(store:table("Seats"):get("p", "r")).n <= 2)
      end)
    end
  end)

  it("go into a file that was made while a signal came", function()
    local folder <close> = sh.folder()
    folder:write("x.lua", [[print(require("synod").store:container "flags":create())]])
    local said = sh.run(sh.preload "interrupted.c" .. [[
      preloaded $SYNOD run --store "embedded:$DIR/s.db" "$DIR/x.lua"
    ]], { dir = folder.path })
    assert.equal("true\n", said)
  end)

  it("are in doubt when the disk finds out that it is full only as it is to keep them", function()
    local folder <close> = sh.folder()
    folder:write("write.lua", [[
      local synod = require "synod"
      local mail = synod.store:queue "mail"
      assert(mail:create())
      io.open("full", "w"):close()
      local ok, err = mail:put("doubt", { retries = 0 })
      print(ok, err.code, tostring(err):match "No space left" , tostring(err):match "may or may not")
      synod.spawn(function()
        synod.sleep(0.3)
        os.remove "full"
      end)
      assert(mail:put "after") -- tried again
      io.open("full", "w"):close()
      print((mail:put("last", { retries = 0 })))
      os.execute "kill -KILL $PPID"]])
    local output = sh.run([[cc -shared -fPIC -o $DIR/full.so spec/support/full_sync.c -ldl || exit
      export SYNOD=$(readlink -f $SYNOD) ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0; cd $DIR
      LD_PRELOAD=./full.so $SYNOD run --store embedded:s.db write.lua]], { dir = folder.path })
    assert.matches("^nil\tInternalError\tNo space left\tmay or may not\nnil\n", output)
    core.main(function()
      local store <close> = assert(core.open_store("embedded:" .. folder.path .. "/s.db"))
      local there = store:queue("mail"):get { n = 32 }
      assert.equal("after", there[1].body) -- the first one was written over
      assert.is_true(#there <= 2) -- the last one was not: it is there after a kill
    end)
  end)

  it("are not lost by a get or a delete that the full disk refuses", function()
    if not small_disk.is_possible then return pending("this machine does not let us mount") end
    local folder <close> = sh.folder()
    folder:write("take.lua", [[
      local synod = require "synod"
      local mail, c = synod.store:queue "mail", synod.store:container "flags"
      assert(mail:create())
      assert(c:create())
      for i = 1, 40 do assert(mail:put("m" .. i .. " " .. ("x"):rep(3000))) end
      local taken = assert(mail:get { n = 8, visibility = 1000 })
      local n = 0
      while n < 1000 and c:blob("fill" .. n):put(("x"):rep(20000)) do n = n + 1 end
      repeat n = n + 1 until n > 2000 or not c:blob("fill" .. n):put ""
      local codes, gone, got = {}, 0, {}
      for _, message in ipairs(taken) do
        local ok, err = message:delete()
        if ok then gone = gone + 1 else codes[err.code] = true end
      end
      for _ = 1, 5 do
        local list, err = mail:get { n = 32, visibility = 1000 }
        if not list then codes[err.code] = true end
        for _, message in ipairs(list or {}) do got[#got + 1] = message end
      end
      assert(next(codes) == "StoreFull" and not next(codes, "StoreFull"), next(codes))
      os.execute "rm disk/fill"
      for _, message in ipairs(assert(mail:get { n = 32, visibility = 1000 })) do got[#got + 1] = message end
      for i, message in ipairs(got) do assert(message.dequeue_count == 1, i) end
      print(#got, mail:count() + gone)
      for _, message in ipairs(taken) do message:delete() end
      print(mail:count())]])
    local output, code = small_disk.run(folder, [[export SYNOD=$(readlink -f $SYNOD); cd $DIR &&
      dd if=/dev/zero of=disk/fill bs=1k count=2000 2>/dev/null
      $SYNOD run --store embedded:disk/s.db take.lua]], "4m")
    assert.same({ "32\t40\n32\n", 0 }, { output, code })
  end)
end)

describe("a store whose files are removed or replaced", function()
  --- A store with a container, open here while `shell` has been run in its folder and 20 ms have passed.
  local function under(query, shell, fn)
    local folder <close> = sh.folder()
    local url = "embedded:" .. folder.path .. "/s.db"
    folder:write("other.lua", [[
      local c = require("synod").store:container "flags"
      assert(c:create())
      for i = 1, 20 do assert(c:blob("other" .. i):put "x") end
      os.execute "kill -KILL $PPID"]])
    core.main(function()
      local store <close> = assert(core.open_store(url))
      assert(store:container("flags"):create())
    end)
    core.main(function()
      local store <close> = assert(core.open_store(url .. query))
      assert(store:container("flags"):head())
      local function run(text)
        sh.run("export SYNOD=$(readlink -f $SYNOD); cd $DIR; " .. text, { dir = folder.path })
      end
      run(shell)
      core.sleep(0.03) -- a look is good for 20 ms
      fn(store:container "flags", run)
    end)
    local there = {}
    core.main(function()
      local store <close> = assert(core.open_store(url))
      for item in store:container("flags"):list() do there[#there + 1] = item.name end
    end)
    return there
  end

  local LARGE = ("x"):rep(300000) -- goes to the store's thread, relaxed too

  for _, query in ipairs { "", "?relaxed" } do
    it("keeps what it acknowledges when its file was away and has come back" .. query, function()
      for away, back in pairs {
        ["mv s.db x; cp x s.db"] = "mv x s.db",
        ["mkdir x; mv s.db* x; touch s.db"] = "mv x/* .",
        ["mkdir x; mv s.db* x"] = "mv x/* .",
      } do
        local there = under(query, away, function(c, run)
          assert.equal("StoreGone", select(2, c:blob("no"):put(LARGE)).code, away) -- the thread's first
          run(back)
          core.sleep(0.03)
          for i = 1, 30 do assert(c:blob("b" .. i):put(LARGE)) end
        end)
        assert.equal(30, #there, away)
      end
    end)

    it("does not write over what others wrote after its log's index was removed" .. query, function()
      local there = under(query, "rm s.db-shm; $SYNOD run --store embedded:s.db other.lua", function(c)
        for i = 1, 20 do assert.equal("StoreGone", select(2, c:blob("b" .. i):put "x").code) end
      end)
      assert.equal(20, #there)
    end)

    it("does not remove a log that others made in its log's place" .. query, function()
      local there = under(query, "rm s.db-wal s.db-shm; $SYNOD run --store embedded:s.db other.lua", function(c)
        assert.equal("StoreGone", select(2, c:blob("b"):put "x").code)
      end)
      assert.equal(20, #there)
    end)
  end

  it("writes a log back that was removed when nobody else has one", function()
    assert.same({ "b" }, under("", "true", function(c, run)
      assert(c:blob("b"):put "x")
      run "rm s.db-wal"
    end))
  end)

  it("are the same files through a link: who waits there is told", function()
    local folder <close> = sh.folder()
    local place = { container = "flags", prefix = "startup_done" }
    assert.equal("", sh.run("ln -s s.db $DIR/link.db", { dir = folder.path }))
    core.main(function()
      local here <close> = assert(core.open_store("embedded:" .. folder.path .. "/s.db"))
      local there <close> = assert(core.open_store("embedded:" .. folder.path .. "/link.db"))
      assert(here:container("flags"):create())
      local mark = there:mark(place)
      assert(here:container("flags"):blob("startup_done_1"):put "")
      assert.equal(mark + 1, there:mark(place))
    end)
    assert.equal("link.db\n", sh.run("cd $DIR; ls link.db*", { dir = folder.path }))
  end)
end)
