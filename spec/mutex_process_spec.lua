-- The mutex between real processes, over one file that is not protected by anything else.

local sh = require "spec.support.sh"

local ROUNDS = math.tointeger(tonumber(os.getenv "SYNOD_MUTEX_ROUNDS")) or 25

--- Adds one to the number in a file, `rounds` times, with a wait between the read and the write.
local ADD = [[
local synod = require "synod"
local account = require("synod.mutex").new { name = "account", fair = arg[3] == "fair", ttl = 2 }
for _ = 1, tonumber(arg[2]) do
  assert(account:with(function()
    local file = assert(io.open(arg[1]))
    local balance = file:read "n"
    file:close()
    synod.yield()
    file = assert(io.open(arg[1], "w"))
    file:write(("%d\n"):format(balance + 1))
    file:close()
    return true
  end, { timeout = 30 }))
end
]]

describe("a mutex of processes", function()
  for _, kind in ipairs { "plain", "fair" } do
    it(("loses no change of a file that nothing else protects (%s)"):format(kind), function()
      local folder <close> = sh.folder()
      folder:write("add.lua", ADD)
      folder:write("balance", "0\n")
      local output, code = sh.run(("$SYNOD run -n 4 $DIR/add.lua $DIR/balance %d %s"):format(ROUNDS, kind), {
        dir = folder.path, env = { SYNOD_STORE = "embedded:" .. folder.path .. "/store.db?relaxed" },
      })
      assert.equal(0, code, output)
      assert.equal(("%d\n"):format(ROUNDS * 4), folder:read "balance")
    end)
  end

  it("is had by the next within the ttl when its holder was killed, and by nobody before its lease is over", function()
    local folder <close> = sh.folder()
    folder:write("hold.lua", [[
      local synod = require "synod"
      local account = require("synod.mutex").new { name = "account", ttl = 2 }
      if arg[1] == "die" then
        local held = assert(account:lock())
        print(held.fence)
        io.stdout:flush()
        os.execute "kill -9 $PPID"
      end
      local from = synod.now()
      local held <close> = assert(account:lock { timeout = 20 })
      print(held.fence, synod.now() - from)
    ]])
    local output = sh.run("$SYNOD run $DIR/hold.lua die; $SYNOD run $DIR/hold.lua", {
      dir = folder.path, env = { SYNOD_STORE = "embedded:" .. folder.path .. "/store.db" },
    })
    local first, second, waited = output:match("(%d+)%s.-(%d+)%s+([%d.]+)\n$")
    assert.is_true(tonumber(second) > tonumber(first), output)
    assert.is_true(tonumber(waited) > 1.5 and tonumber(waited) < 6, output)
  end)
end)
