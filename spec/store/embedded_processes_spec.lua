-- Several processes on one store file: what is acknowledged stays, nobody starves, changes wake everybody, and whoever
-- hangs or dies in the middle holds up nobody for longer than a deadline.

local core = require "synod.core"
local sh = require "spec.support.sh"

local WRITERS = 8
local ROUNDS = tonumber(os.getenv "SYNOD_KILL_ROUNDS") or 3 -- a nightly size: 50

--- A folder with scripts; `run` runs a shell script beside them, with $RUN to start one on the store.
local function place(scripts, query)
  local folder = sh.folder()
  for name, text in pairs(scripts) do
    folder:write(name, "local synod = require 'synod'\nlocal c = synod.store:container 'flags'\n" .. text)
  end
  function folder.run(script)
    local start = 'RUN="$SYNOD run --store embedded:$DIR/s.db' .. (query or "") .. '"; cd "$DIR/"; '
    return sh.run('SYNOD=$(readlink -f "$SYNOD"); ' .. start .. script, { dir = folder.path })
  end
  return folder
end

--- Runs fn in a run of this process, with the place's store open.
local function with_store(folder, fn, query)
  return core.main(function()
    local store <close> = assert(core.open_store("embedded:" .. folder.path .. "/s.db" .. (query or "")))
    return fn(store)
  end)
end

--- Starts a shell command in the background; closing it ends what it started.
local function background(folder, command)
  local pipe <close> = io.popen(("cd %s && { %s </dev/null >/dev/null 2>&1 & echo $!; }"):format(folder.path, command))
  local pid = pipe:read("l")
  return setmetatable({ pid = pid }, { __close = function()
    os.execute("{ pkill -KILL -P " .. pid .. "; kill -KILL " .. pid .. "; } 2>/dev/null")
  end })
end

--- Waits, in real time, until a file is there.
local function until_file(folder, name)
  local limit = os.time() + 10
  while not folder:read(name) do
    assert(os.time() < limit, name .. " did not come")
    os.execute("sleep 0.01")
  end
end

describe("many processes on one file", function()
  -- Chance decides who sees the file half made: without the transaction around the look, most runs fail.
  it("open it while one of them is making it", function()
    local folder <close> = place({
      ["open.lua"] = [[
        for i = 1, 80 do
          local at = tonumber(arg[1]) + i * 0.03
          while synod.now() < at do end -- all at one instant
          local store <close> = assert(synod.open(("embedded:%d.db"):format(i)))
        end]],
    })
    local output, code = folder.run([[
      start=$(awk '{ print $1 + 0.3 }' /proc/uptime)
      for i in 1 2 3 4 5 6 7 8; do $RUN open.lua $start & pids="$pids $!"; done
      for pid in $pids; do wait $pid || exit 1; done]])
    assert.same({ "", 0 }, { output, code })
  end)

  for _, query in ipairs { "", "?relaxed" } do
    it("lose nothing that was acknowledged when they are killed" .. query, function()
      local folder <close> = place({
        ["write.lua"] = [[
          local acked = assert(io.open("acked-" .. arg[1] .. "-" .. arg[2], "w"))
          acked:setvbuf "no"
          c:create()
          local log, seats, mail = c:blob("log-" .. arg[1]), synod.store:table "Seats", synod.store:queue "mail"
          seats:create()
          mail:create()
          log:put("", { type = "append", if_none_match = "*" })
          for n = 1, math.huge do
            assert(c:blob(arg[1] .. "/" .. arg[2] .. "/" .. n % 20):put(tostring(n)))
            assert(log:append(("%s %d\n"):format(arg[2], n)))
            assert(seats:upsert { partition = arg[1], row = arg[2], n = n, text = tostring(n):rep(500) })
            assert(seats:batch { { upsert = { partition = arg[1], row = "a", n = n, round = arg[2] } },
              { upsert = { partition = arg[1], row = "b", n = n, round = arg[2] } } })
            assert(mail:put(arg[1] .. " " .. arg[2] .. " " .. n, { ttl = -1 }))
            acked:write(n, "\n")
          end]],
      }, query)
      math.randomseed(1)
      for round = 1, ROUNDS do
        folder.run(([[for w in 1 2 3 4 5 6 7 8; do $RUN write.lua $w %d & echo $! >> pids; done
          until grep -qs . acked-*-%d; do sleep 0.05; done
          sleep 0.%03d; kill -KILL $(cat pids); wait; rm pids]]):format(round, round, math.random(100, 400)))
      end
      local lost, torn, total = 0, 0, 0
      with_store(folder, function(store)
        local seats, mail = store:table "Seats", {}
        local more
        repeat
          more = assert(store:queue("mail"):get { n = 32, visibility = 3600 })
          for _, message in ipairs(more) do mail[message.body] = true end
        until #more == 0
        for w = 1, WRITERS do
          local log = assert(store:container("flags"):blob("log-" .. w):get())
          for round = 1, ROUNDS do
            local last = 0
            for n in (folder:read(("acked-%d-%d"):format(w, round)) or ""):gmatch "%d+" do last = tonumber(n) end
            total = total + last
            for n = math.max(1, last - 19), last do -- what came later may have overwritten the earlier ones
              local body = store:container("flags"):blob(("%d/%d/%d"):format(w, round, n % 20)):get()
              if not body or tonumber(body) < n then lost = lost + 1 end
            end
            for n = 1, last do
              if not log:find(("%d %d\n"):format(round, n), 1, true) then lost = lost + 1 end
              if not mail[("%d %d %d"):format(w, round, n)] then lost = lost + 1 end
            end
            local seat = seats:get(tostring(w), tostring(round))
            if last > 0 and not (seat and seat.n >= last) then lost = lost + 1 end
            if seat and seat.text ~= tostring(seat.n):rep(500) then torn = torn + 1 end
          end
          local a, b = seats:get(tostring(w), "a"), seats:get(tostring(w), "b")
          if a and not (b and a.n == b.n and a.round == b.round) then torn = torn + 1 end
        end
      end, query)
      assert.same({ lost = 0, torn = 0 }, { lost = lost, torn = torn })
      assert.is_true(total >= ROUNDS, total)
      assert.equal("ok\n", (folder.run "sqlite3 s.db 'PRAGMA integrity_check'"))
    end)
  end

  it("lose no update that was made under a condition, and give each ETag once", function()
    local folder <close> = place {
      ["add.lua"] = [[
        c:create()
        local b = c:blob "counter"
        b:put("0", { if_none_match = "*" })
        for _ = 1, 40 do
          local ok, props
          repeat
            local body, before = assert(b:get())
            ok, props = b:put(tostring(tonumber(body) + 1), { if_match = before.etag })
            assert(ok or props.code == "ConditionNotMet", tostring(props))
          until ok
          print(ok.etag)
        end]],
    }
    local output = folder.run "for w in 1 2 3 4 5 6 7 8; do $RUN add.lua & done; wait"
    local seen, count = {}, 0
    for etag in output:gmatch "[^\n]+" do
      assert.is_nil(seen[etag])
      seen[etag], count = true, count + 1
    end
    assert.equal(40 * WRITERS, count, output)
    assert.equal(tostring(40 * WRITERS), with_store(folder, function(store)
      return (store:container("flags"):blob("counter"):get())
    end))
  end)

  it("can all make the file at once", function()
    local folder <close> = place { ["make.lua"] = [[
      assert(c:create())
      assert(c:blob(arg[1]):put "x")]] }
    local output, code = folder.run [[i=0; while [ $i -lt 24 ]; do $RUN make.lua b$i & i=$((i + 1)); done; wait]]
    assert.same({ "", 0 }, { output, code })
    assert.equal(24, with_store(folder, function(store)
      local n = 0
      for _ in store:container("flags"):list() do n = n + 1 end
      return n
    end))
  end)

  it("all get their turn", function()
    local folder <close> = place({ ["write.lua"] = [[
      c:create()
      local worst, count, finish = 0, 0, synod.now() + 1
      while synod.now() < finish do
        local before = synod.now()
        assert(c:blob(arg[1]):put(("x"):rep(1000)))
        worst, count = math.max(worst, synod.now() - before), count + 1
      end
      print(worst < 1 and count > 20 and "well" or worst .. " s, " .. count)]] }, "?relaxed")
    local output = folder.run "for w in 1 2 3 4 5 6 7 8; do $RUN write.lua w$w & done; wait"
    assert.equal(("well\n"):rep(WRITERS), output)
  end)
end)

describe("a change made by one process", function()
  local WAIT = [[
    local mark = synod.store:mark { container = "flags", prefix = arg[1] }
    io.open("ready-" .. arg[2], "w"):close()
    local came = synod.store:changed { container = "flags", prefix = arg[1], since = mark, timeout = 8 }
    print(came, synod.now())]]

  it("wakes those who wait in others, without a polling interval", function()
    local folder <close> = place {
      ["wait.lua"] = WAIT,
      ["write.lua"] = [[
        synod.sleep(0.1)
        print("written", synod.now())
        assert(c:blob("deployment/gate"):put "open")]],
    }
    assert(with_store(folder, function(store) return store:container("flags"):create() end))
    local late = {}
    for _, prefix in ipairs { "deployment/", "dep", "deployment/gate", "", "deploym" } do
      local output = folder.run(([[for w in 1 2 3; do $RUN wait.lua "%s" $w & done
        until [ -e ready-1 ] && [ -e ready-2 ] && [ -e ready-3 ]; do sleep 0.01; done
        $RUN write.lua; wait; rm ready-*]]):format(prefix))
      local written, woken = tonumber(output:match "written\t(%S+)"), 0
      for when in output:gmatch "true\t(%S+)" do
        late[#late + 1] = tonumber(when) - written
        woken = woken + 1
      end
      assert.equal(3, woken, output)
    end
    table.sort(late)
    assert.is_true(late[8] < 0.25, "median " .. late[8]) -- who waits looks by itself after 0.5 s, some 0.4 s too late
    assert.is_true(late[1] > 0)
  end)

  it("wakes them though the writer died after its commit and before it could say so", function()
    local folder <close> = place { ["wait.lua"] = WAIT }
    assert(with_store(folder, function(store) return store:container("flags"):create() end))
    -- what such a writer leaves: the slots that it announced (all, here), not raised
    local output = folder.run [[$RUN wait.lua deployment/ 1 & until [ -e ready-1 ]; do sleep 0.01; done; sleep 0.2
      printf '\377\377\377\377\377\377\377\377' | dd of=s.db-wake bs=1 seek=8 conv=notrunc 2>/dev/null; wait]]
    assert.matches("^true\t", output)
  end)

  it("wakes them though it was made with another program", function()
    local folder <close> = place { ["wait.lua"] = WAIT }
    assert(with_store(folder, function(store) return store:container("flags"):create() end))
    local output = folder.run [[$RUN wait.lua deployment/ 1 & until [ -e ready-1 ]; do sleep 0.01; done; sleep 0.2
      sqlite3 s.db "UPDATE rows SET metadata = 'a=1' || char(10)"; wait]]
    assert.matches("^true\t", output)
  end)
end)

describe("while another process holds the lock", function()
  it("a write ends at its deadline, reads and all else go on", function()
    local folder <close> = place {}
    with_store(folder, function(store)
      local b = store:container("flags"):blob "b"
      assert(store:container("flags"):create())
      assert(b:put "1")
      local holder <close> = background(folder, "flock s.db-lock sh -c 'touch held; sleep 30'")
      until_file(folder, "held")
      local ticks = 0
      local ticker = core.spawn(function()
        while true do
          core.sleep(0.01)
          ticks = ticks + 1
        end
      end)
      local before = core.now()
      local ok, err = b:put("2", { timeout = 0.4, retries = 0 })
      local took = core.now() - before
      assert.same({ nil, "Timeout" }, { ok, err.code })
      assert.is_true(took >= 0.39 and took < 2, took)
      assert.is_true(ticks >= 3, ticks) -- one at most when the wait holds them up; a busy machine makes few
      assert.equal("1", (b:get()))
      ticker:cancel()
      assert(holder)
    end)
  end)

  it("a large read waits for no write that waits", function()
    local folder <close> = place {}
    with_store(folder, function(store)
      local c, seats = store:container "flags", store:table "Seats"
      assert(c:create() and seats:create())
      assert(c:blob("large"):put(("x"):rep(600000)))
      local operations = {}
      for i = 1, 20 do
        operations[i] = { insert = { partition = "p", row = tostring(i), text = ("x"):rep(30000) } }
      end
      assert(seats:batch(operations))
      local holder <close> = background(folder,
        "flock s.db-lock sh -c 'touch held; while [ -e held ]; do sleep 0.01; done'")
      until_file(folder, "held")
      local put = core.spawn(function() return c:blob("b"):put("x", { timeout = 60 }) end)
      core.yield() -- it stands in line
      for _ = 1, 3 do
        assert.equal(600000, #assert(c:blob("large"):get()))
        local count = 0
        for _ in seats:query() do count = count + 1 end
        assert.equal(20, count)
      end
      assert.is_false(put:ended())
      assert(os.remove(folder.path .. "/held"))
      assert(put:join())
      assert(holder)
    end)
  end)

  it("a write waits, and is made when the lock is free", function()
    local folder <close> = place {}
    with_store(folder, function(store)
      local b = store:container("flags"):blob "b"
      assert(store:container("flags"):create())
      local holder <close> = background(folder, "flock s.db-lock sh -c 'touch held; sleep 0.3'")
      until_file(folder, "held")
      assert(b:put "2")
      assert.equal("2", (b:get()))
      assert(holder)
    end)
  end)

  it("a write that nobody wants any more is taken back, and an instance can end", function()
    local folder <close> = place {
      ["end.lua"] = [[
        local t = synod.spawn(function() return c:blob("b"):put "never" end)
        synod.sleep(0.05)
        t:cancel()
        local ok, err = t:join()
        print(ok, err.code)
        synod.spawn(function() return c:blob("b"):put "never" end):detach()
        synod.sleep(0.05)]],
    }
    assert(with_store(folder, function(store) return store:container("flags"):create() end))
    local holder <close> = background(folder, "flock s.db-lock sh -c 'touch held; sleep 30'")
    until_file(folder, "held")
    local before = os.time()
    local output, code = folder.run "$RUN end.lua"
    assert.same({ "nil\tCancelled\n", 0 }, { output, code })
    assert.is_true(os.time() - before <= 3)
    assert(holder)
  end)
end)

describe("a process that is stopped", function()
  it("while it waits for the lock of another program writes nothing when its deadline has passed meanwhile", function()
    local folder <close> = place {
      ["put.lua"] = [[
        local put = synod.spawn(function() return c:blob("late"):put("x", { timeout = 1.5, retries = 0 }) end)
        synod.yield()
        io.open("sent", "w"):close()
        local ok, err = put:join()
        print(ok, err.code)]],
    }
    assert(with_store(folder, function(store) return store:container("flags"):create() end))
    local output = folder.run [[
      mkfifo in; sqlite3 s.db <in & holder=$!
      exec 8>in; printf 'BEGIN IMMEDIATE;\n.shell touch held\n' >&8
      until [ -e held ]; do sleep 0.01; done
      $RUN put.lua >out 2>&1 & writer=$!
      until [ -e sent ]; do sleep 0.01; done
      sleep 0.3; kill -STOP $writer
      while grep -h ^State: /proc/$writer/task/*/status | grep -qv 'stopped\|zombie'; do sleep 0.01; done
      printf 'COMMIT;\n.quit\n' >&8; wait $holder
      sleep 1.5; kill -CONT $writer; wait $writer; cat out]]
    assert.equal("nil\tTimeout\n", output)
    with_store(folder, function(store) assert.is_nil(store:container("flags"):blob("late"):head()) end)
  end)

  --- SQLite's own shell on the store, stopped in the middle of a transaction.
  local function stopped(folder, begin)
    folder:write("stop.sql", begin .. "\nSELECT count(*) FROM rows;\n.shell touch stopped; kill -STOP $PPID\n")
    local shell = background(folder, "sh -c 'sqlite3 s.db < stop.sql; true'")
    until_file(folder, "stopped")
    return shell
  end

  it("while it reads holds up no writer", function()
    local folder <close> = place {}
    with_store(folder, function(store)
      local c = store:container "flags"
      assert(c:create())
      local reader <close> = stopped(folder, "BEGIN;")
      for i = 1, 1500 do assert(c:blob("b" .. i % 50):put(("x"):rep(3000))) end
      assert(reader)
    end, "?relaxed")
  end)

  it("while it writes holds up the others until their deadline", function()
    local folder <close> = place {}
    with_store(folder, function(store)
      local c = store:container "flags"
      assert(c:create())
      do
        local writer <close> = stopped(folder, "BEGIN IMMEDIATE;")
        local before = core.now()
        local ok, err = c:blob("b"):put("x", { timeout = 0.3, retries = 0 })
        assert.same({ nil, "Timeout" }, { ok, err.code })
        assert.is_true(core.now() - before < 2)
        assert.same({}, { (c:blob("b"):get()) })
        assert(writer)
      end
      assert(c:blob("b"):put "y")
    end)
  end)
end)
