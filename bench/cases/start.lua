-- start.lua: what it costs to start an instance that acquires nothing and ends.

local process = require "harness.process"
local series = require "harness.series"

local start = { title = "Start of an instance that acquires nothing and ends" }

local OURS = { "build/synod", "bench/ours/nothing.lua" }
local LUA = { "lua5.4", "-e", "" }
local NODE = { "node", "bench/peers/sdk_nothing.js" }

--- The medians of some runs.
local function runs_of(command, count)
  return function()
    local m = process.measure { runs = count, table.unpack(command) }
    return { wall = series.median(m.wall_ms), cpu = series.median(m.cpu_ms), peak = series.median(m.peak_kb) / 1024 }
  end
end

--- How many of the libraries that are loaded at first use an instance has mapped.
local function libraries(script, ...)
  local maps = process.measure({ "build/synod", "bench/ours/" .. script, ... }).output
  local count = 0
  for _, name in ipairs { "libcurl", "libcrypto", "libssl", "libxml2" } do
    if maps:find(name, 1, true) then count = count + 1 end
  end
  assert(maps:find("synod", 1, true), "the list of mapped files is empty")
  return count
end

function start.run(context)
  local each = context.rounds(20, 10)
  local all = series.by_turns(context.rounds(15, 3), {
    { "synod", runs_of(OURS, each) },
    { "lua5.4", runs_of(LUA, each) },
    { "node", runs_of(NODE, context.rounds(3, 1)) },
  }, context.say)
  local ours, lua, node = all.synod, all["lua5.4"], all.node
  local function show(name, unit, key, peer, values, aim)
    context.show { name = name, unit = unit, ours = ours[key], peer = values[key], peer_name = peer, aim = aim }
  end
  show("wall", "ms", "wall", "lua5.4", lua, { ratio = true, most = 2 })
  show("wall", "ms", "wall", "Node + SDK", node)
  show("CPU", "ms", "cpu", "lua5.4", lua)
  show("CPU", "ms", "cpu", "Node + SDK", node)
  show("peak memory", "MiB", "peak", "lua5.4", lua)
  show("peak memory", "MiB", "peak", "Node + SDK", node, { ratio = true, most = 0.1 })
  context.show {
    name = "of libcurl, libcrypto, libssl, libxml2 loaded", unit = "libraries",
    ours = { libraries("maps.lua") }, aim = { most = 0 },
  }
end

return start
