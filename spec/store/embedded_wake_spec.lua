-- Who waits for a change of an embedded store and is not told in the usual way: the counters' file was removed, a
-- writer was stopped before it could say what it wrote, the store's own file is gone. Others write all along, so that
-- counters which change say nothing of these.

local core = require "synod.core"
local sh = require "spec.support.sh"

local AWAITED = { container = "flags", prefix = "startup_done" } -- one counter of the 64
local OTHER = "something_else" -- another one: see below
local ENOUGH_S = 30 -- for what takes half a second, on a busy machine

--- A store in a folder, and a shell there that does not hold up the tasks; `before` runs while nobody waits.
local function with_waiter(before, fn)
  local folder <close> = sh.folder()
  folder:write("tell.lua", [[assert(require("synod").store:container("flags"):blob("startup_done_1"):put "")]])
  local synod = sh.run("printf %s \"$(readlink -f $SYNOD)\"")
  local function shell(text)
    os.execute(("cd %s; SYNOD=%s; { %s; } </dev/null >out 2>&1 &"):format(folder.path, synod, text))
  end
  core.main(function()
    local store <close> = assert(core.open_store("embedded:" .. folder.path .. "/s.db"))
    local c = store:container "flags"
    assert(c:create())
    local mark = store:mark(AWAITED)
    assert(c:blob(OTHER):put "")
    assert.equal(mark, store:mark(AWAITED)) -- the other counter is another
    before(folder, shell)
    local place = { container = AWAITED.container, prefix = AWAITED.prefix, since = mark, timeout = ENOUGH_S }
    local waiter = core.spawn(function() return store:changed(place) end)
    core.yield()
    fn(c, folder, shell)
    assert.is_true((waiter:join()))
  end)
end

local function nothing() end

--- The bytes of the counters' file, from a place on.
local function counters(folder, from)
  return assert(folder:read "s.db-wake"):sub(from + 1)
end

--- Where in the file the counter of the other blob begins.
local function other_counter(c, folder)
  local before = counters(folder, 64)
  assert(c:blob(OTHER):put "")
  local after = counters(folder, 64)
  for at = 1, #before do
    if before:byte(at) ~= after:byte(at) then return 64 + (at - 1) // 8 * 8 end
  end
end

describe("who waits for a change is told", function()
  it("though it was made by one who found no counters and made new ones, while others write", function()
    with_waiter(nothing, function(c, folder, shell)
      shell "rm s.db-wake; $SYNOD run --store embedded:s.db tell.lua; touch told"
      repeat
        assert(c:blob(OTHER):put "")
        core.sleep(0.01)
      until folder:read "told"
      for _ = 1, 100 do -- each look finds that a counter has changed
        assert(c:blob(OTHER):put "")
        core.sleep(0.01)
      end
    end)
  end)

  it("though its writer stands still before it says so, and another's was told of", function()
    with_waiter(nothing, function(c, folder, shell)
      -- what such a writer leaves: the lock, the slots announced, the commit; of the other only a counter
      shell(([[exec 9<>s.db-lock; flock 9
        printf '\377\377\377\377\377\377\377\377' | dd of=s.db-wake bs=1 seek=8 conv=notrunc
        sqlite3 s.db "UPDATE rows SET metadata = 'a=1' || char(10)"
        printf '\377' | dd of=s.db-wake bs=1 seek=%d conv=notrunc
        while [ -e s.db ]; do sleep 0.05; done]]):format(other_counter(c, folder) + 7))
    end)
  end)

  for when, removed in pairs { before = true, after = false } do
    it("when the store's file is removed " .. when .. " it begins to wait", function()
      local function remove(folder) assert(os.remove(folder.path .. "/s.db")) end
      with_waiter(removed and remove or nothing, function(_, folder)
        if not removed then
          core.sleep(0.1)
          remove(folder)
        end
      end)
    end)
  end
end)
