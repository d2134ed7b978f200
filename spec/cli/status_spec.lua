-- synod status: what it says of what others left in the store. spec/cli/lock_spec.lua has it beside real holders.

local program = require "spec.support.program"
local sh = require "spec.support.sh"

--- Runs synod status NAME in a store that the script has filled.
local function status(lua, words)
  local folder <close> = sh.folder()
  folder:write("x.lua", [[
    local c = require("synod").store:container "locks"
    assert(c:create())
    local function place(name, mark) mark.synod_v = "1" local b = c:blob(name) assert(b:put("", { metadata = mark }))
      return b end
  ]] .. lua)
  return sh.run([[unset SYNOD_STORE SYNOD_INSTANCE; $SYNOD run "$DIR/x.lua" && $SYNOD status ]] .. words,
    { dir = folder.path, env = { XDG_STATE_HOME = folder.path .. "/state" } })
end

local LEASED = [[
  assert(place("mutex/x", { synod_holder = "a%20b%1B%5B2J", synod_host = "h", synod_pid = "12", synod_fence = "77",
    synod_since = "2026-01-01T00:00:00Z", synod_purpose = "backup", synod_next = "c" }):lease { duration = 15 })
]]

describe("synod status", function()
  it("says who holds a lease of the service", function()
    local out, code = status(LEASED, "x")
    assert.equal(0, code, out)
    assert.matches("^mutex/x: held by a b%?%[2J\n", out)
    for _, row in ipairs {
      "host +h", "process +12", "since +2026%-01%-01T00:00:00Z", "purpose +backup", "fence +77", "handed to +c",
      "kind +a lease of the service", "seen held +%d+%-%d+%-%d+T",
    } do
      assert.matches("\n  " .. row, out)
    end
  end)

  it("takes the options of every command that touches a store", function()
    local out, code = status(LEASED, "x --instance w_IN_2 --instances 3 --deployment d --log-level error")
    assert.equal(0, code, out)
    out, code = status(LEASED, "x --instance w_IN_3 --instances 3")
    assert.equal(2, code, out)
    assert.matches("--instance w_IN_3: the ordinal must be below --instances 3", out, 1, true)
  end)

  it("tells programs the same", function()
    local out, code = status(LEASED, "x --json")
    assert.equal(0, code, out)
    for _, field in ipairs {
      '"name":"mutex/x"', '"held":true', '"state":"held"', '"holder":"a b?[2J"', '"pid":12', '"fence":77',
      '"kind":"lease"', '"next":"c"',
    } do
      assert.truthy(out:find(field, 1, true), out)
    end
  end)

  it("judges a record by whether it changes within its ttl", function()
    local record = [[ place("election/x", { synod_holder = "a", synod_ttl_ms = "500", synod_beat = "3" }) ]]
    local out, code = status(record, "x")
    assert.equal(1, code, out)
    assert.matches("^election/x: nobody holds it %(expired%)\n  last holder +a\n", out)
    assert.matches("kind +a record, over when not renewed for 0.5 s\n", out)
    assert.matches("last renewal +%d+%-%d+%-%d+T", out)
  end)

  it("says that a record is held as soon as it changes", function()
    local folder <close> = sh.folder()
    folder:write("x.lua", [[
      local held <close> = assert(require("synod.mutex").new({ name = "x", ttl = 9, renew = 0.2 }):lock())
      print "held"
      io.stdout:flush()
      io.read()
    ]])
    local out, code = sh.run([[
      unset SYNOD_STORE SYNOD_INSTANCE; mkfifo "$DIR/in"; exec 3<>"$DIR/in"
      $SYNOD run --instance a "$DIR/x.lua" <"$DIR/in" >"$DIR/out" & holder=$!
      while ! [ -s "$DIR/out" ]; do sleep 0.01; done
      $SYNOD status x; code=$?
      echo >&3; wait $holder; exit $code
    ]], { dir = folder.path, env = { XDG_STATE_HOME = folder.path .. "/state" } })
    assert.equal(0, code, out)
    assert.matches("^mutex/x: held by a\n", out)
    assert.matches("kind +a record, over when not renewed for 9 s\n", out)
  end)

  it("does not judge what a newer synod has written", function()
    local out, code = status([[ place("mutex/x", {}):set_metadata { synod_v = "2", synod_holder = "a" } ]], "x")
    assert.equal(3, code, out)
    assert.is_nil(out:find("nobody holds it", 1, true), out)
  end)

  it("shows each permit of a semaphore, and the head of a quorum", function()
    local out, code = status([[
      place("semaphore/x/1", { synod_holder = "a" })
      place("semaphore/x/permits", { synod_permits = "2" }) -- no permit
      assert(place("semaphore/x/2", { synod_holder = "b" }):lease { duration = 15 })
      place("quorum/x", {})
    ]], "x")
    assert.equal(0, code, out)
    assert.matches("quorum/x: nobody holds it %(free%)\n", out)
    assert.matches("semaphore/x/1: nobody holds it %(released%)\n", out)
    assert.matches("semaphore/x/2: held by b\n", out)
    assert.is_nil(out:find("x/permits", 1, true), out)
  end)

  it("tells no kind of what nobody holds, which may have been either", function()
    local out, code = status([[ place("mutex/x", { synod_fence = "77" }) ]], "x --json")
    assert.equal(1, code, out)
    assert.matches('"held":false', out, 1, true)
    assert.is_nil(out:find("kind", 1, true), out)
  end)

  it("refuses a name that no policy can have", function()
    local r = program.run { "status", "a b" }
    assert.equal(2, r.code, r.err)
    assert.matches("NAME 'a b': letters, digits, '_' and '-' only", r.err, 1, true)
  end)

  it("takes nothing, and makes nothing", function()
    local r = program.run { "status", "x" }
    assert.equal(1, r.code, r.err)
    assert.equal("x: nothing of this name is in the store: nobody has ever held it there\n", r.out)
    assert.equal("", r.err)
  end)

  it("exits with 3 when the store cannot be reached", function()
    local address = "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=YQ==;BlobEndpoint=http://127.0.0.1:1/a"
    local r = program.run { "status", "x", "--timeout", "0.5", "--store", address }
    assert.is_true(r.code == 3 or r.code == 4, r.err)
    assert.is_nil(r.err:find("YQ==", 1, true))
  end)
end)
