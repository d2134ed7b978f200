-- lock.lua: a mutex of synod.
--
--   synod run --store URL lock.lua cycle COUNT TTL                       locks and unlocks, again and again
--   synod run --store URL lock.lua turns WHO COUNT HOLD_S PAUSE_S TTL    holds it so often, for so long, with a pause
--                                                                        after it
--   synod run --store URL lock.lua hold TTL                              says that it holds it, and keeps it
--
-- Instants are in boot-time seconds.

local core = require "synod.core"
local mutex = require "synod.mutex"
local synod = require "synod"

local WARM_UP = 50
local FOREVER_S = 3600

local function requests()
  local sum = 0
  for _, count in pairs(synod.store:usage()) do sum = sum + count end
  return sum
end

local function new(ttl)
  return mutex.new { name = "bench", ttl = tonumber(ttl) }
end

local kinds = {}

function kinds.cycle(count, ttl)
  local lock = new(ttl)
  local function once() assert(assert(lock:lock()):unlock()) end
  for _ = 1, WARM_UP do once() end
  local each, made, cpu, began = {}, requests(), os.clock(), synod.now()
  local at = began
  for i = 1, tonumber(count) do
    once()
    local now = synod.now()
    each[i], at = (now - at) * 1e3, now
  end
  cpu, made = os.clock() - cpu, requests() - made
  table.sort(each)
  print(('{"cycles":%d,"median_ms":%.4f,"worst_ms":%.4f,"cpu_ms":%.3f,"wall_ms":%.3f,"requests":%d}')
    :format(#each, each[#each // 2 + 1], each[#each], cpu * 1e3, (at - began) * 1e3, made))
end

function kinds.turns(who, count, hold, pause, ttl)
  local lock = new(ttl)
  for _ = 1, tonumber(count) do
    local asked = synod.now()
    local held = assert(lock:lock())
    local locked = synod.now()
    synod.sleep(tonumber(hold))
    local unlocking = synod.now()
    assert(held:unlock())
    print(('{"who":%d,"asked":%.6f,"locked":%.6f,"unlocking":%.6f}')
      :format(synod.instance.ordinal or who, asked, locked, unlocking))
    synod.sleep(tonumber(pause))
  end
end

function kinds.hold(ttl)
  assert(new(ttl):with(function()
    print(('{"holds":true,"pid":%d}'):format(core.process_id()))
    synod.sleep(FOREVER_S)
  end))
end

kinds[arg[1]](table.unpack(arg, 2))
