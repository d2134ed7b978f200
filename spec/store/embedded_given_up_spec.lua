-- A write that is answered at its deadline goes on in the store's thread: it must not look at what is no longer there.

local core = require "synod.core"
local sh = require "spec.support.sh"
require "synod.store"

local CALLS = tonumber(os.getenv "SYNOD_GIVEN_UP_CALLS") or 300

--- Texts of one letter each, which show whether a part of another call's memory came in between.
local function texts(letter)
  local e = {}
  for i = 1, 12 do e["p" .. i] = letter:rep(900) end
  return e
end

local function is_whole(e, letter)
  for i = 1, 12 do
    if e["p" .. i] ~= letter:rep(900) then return false end
  end
  return true
end

describe("a write whose caller is answered before it is done", function()
  it("is done as it was asked, or not at all", function()
    local folder <close> = sh.folder()
    core.main(function()
      local store <close> = assert(core.open_store("embedded:" .. folder.path .. "/s.db"))
      local t, b = store:table "things", store:container "copies"
      assert(t:create())
      assert(b:create())
      assert(b:blob "source":put(("s"):rep(5000)))
      local late = 0
      for i = 1, CALLS do
        local letter = string.char(97 + i % 26)
        local quick = { timeout = 0.0001 * (1 + i % 20), retries = 0 }
        local row = ("%05d"):format(i)
        local _, err
        if i % 3 == 0 then
          local e = texts(letter)
          e.partition, e.row, e.letter = "one", row, letter
          _, err = t:upsert(e, quick)
        elseif i % 3 == 1 then
          local list = {}
          for n = 1, 30 do
            local e = texts(letter)
            e.partition, e.row, e.letter = "batch" .. row, ("%02d"):format(n), letter
            list[n] = { insert = e }
          end
          _, err = t:batch(list, quick)
        else
          _, err = b:blob("copy" .. row):copy_from(b:blob "source", quick)
        end
        if err then
          assert.equal("Timeout", err.code)
          late = late + 1
        end
      end
      assert.is_true(late > 0, "no call was late")
      local batches = {}
      for e in t:query() do
        assert.is_true(is_whole(e, e.letter), e.partition .. " " .. e.row)
        batches[e.partition] = (batches[e.partition] or 0) + 1
      end
      for partition, count in next, batches do
        if partition ~= "one" then assert.equal(30, count, partition) end
      end
      for item in b:list { prefix = "copy" } do assert.equal(5000, item.length) end
    end)
  end)
end)

describe("a wait for the lock of a store", function()
  it("ends at its deadline, at the last nanosecond of a second too", function()
    local folder <close> = sh.folder()
    local said = sh.run([[
      ${CC:-cc} -std=c11 -D_GNU_SOURCE -Iruntime -o "$DIR/wait" spec/support/lock_wait.c \
        runtime/store/embedded/lock.c runtime/base/error.c || exit
      timeout -s KILL 20 "$DIR/wait" "$DIR/lock"
    ]], { dir = folder.path })
    assert.equal("over\n", said)
  end)
end)
