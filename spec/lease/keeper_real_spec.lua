-- Kept leases in real time: beside a script that computes, one call into C that takes long, and bulk work.

local core = require "synod.core"
local lease = require "synod.lease"
local sh = require "spec.support.sh"
local synod = require "synod"

local PUTS = 1000
local BYTES = 16 * 1024

local function run(fn)
  local folder <close> = sh.folder()
  core.main(function()
    local store <close> = assert(core.open_store("embedded:" .. folder.path .. "/store.db"))
    fn(store:container("locks"):blob "mutex/a", store)
  end)
end

local function take(blob, ttl)
  return assert(lease.contender(blob, { ttl = ttl, instance = { id = "a" } }):take { timeout = 5 })
end

describe("a kept lease", function()
  it("is renewed while the script computes without waiting", function()
    run(function(blob)
      local held <close> = take(blob, 2)
      local began, sum = synod.now(), 0
      while synod.now() - began < 2.5 do
        for i = 1, 1e5 do sum = sum + i end
      end
      assert.is_true(held:held())
      assert.is_true(held:status().renewals >= 2)
    end)
  end)

  it("is not believed in after a pause, before any alarm has rung", function()
    run(function(blob)
      local held <close> = take(blob, 0.5)
      local text, paused = ("a"):rep(2000), 0
      while paused < 0.6 do
        local at = core.now()
        text:find "^.-.-b" -- one call into C: nothing else goes on meanwhile
        paused = core.now() - at
        text = text .. text
      end
      assert.is_false(held:held())
      assert.equal("LeaseLost", held:wait_lost(1).code)
    end)
  end)

  it("does not stand in line behind a thousand writes", function()
    run(function(blob, store)
      local held = take(blob, 15)
      local other, body, done, tasks = store:container "bulk", ("x"):rep(BYTES), 0, {}
      assert(other:create())
      for i = 1, PUTS do
        tasks[i] = synod.spawn(function()
          assert(other:blob("b" .. i):put(body, { timeout = 60, try_timeout = 60 }))
          done = done + 1
        end)
      end
      while done == 0 do synod.sleep(0.001) end -- all of them stand in line
      local before = done
      assert.is_true(held:release())
      local overtaken_by = done - before
      for _, task in ipairs(tasks) do task:join() end
      assert.equal(PUTS, done)
      assert.is_true(overtaken_by < PUTS / 4, overtaken_by .. " went before it")
    end)
  end)
end)
