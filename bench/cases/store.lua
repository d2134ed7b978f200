-- store.lua: the embedded store, alone and with many processes on one file.

local process = require "harness.process"
local series = require "harness.series"

local store = { title = "The embedded store" }

local WRITERS = 8
local START_S = 0.6 -- until all have opened the file
local WORST_MS = 150

local files = 0

--- A file of its own for each measurement.
local function fresh(context)
  files = files + 1
  return ("%s/store-%d.db"):format(context.work, files)
end

--- Sums what the processes did in `seconds`; the worst wait is the worst of them all.
local function together(command, copies, seconds)
  command.copies = copies
  local sum = { writes = 0, reads = 0, worst = 0 }
  local objects = process.objects(process.measure(command).output)
  assert(#objects == copies, "a writer said nothing")
  for _, each in ipairs(objects) do
    sum.writes = sum.writes + each.writes / seconds
    sum.reads = sum.reads + each.reads / seconds
    sum.worst = math.max(sum.worst, each.write_worst_ms)
  end
  return sum
end

local function ours(context, copies, seconds, relaxed)
  return function()
    local url = "embedded:" .. fresh(context) .. (relaxed and "?relaxed" or "")
    local start = process.boot_time() + START_S
    return together({ "build/synod", "run", "--store", url, "bench/ours/writer.lua", "blob%i", start, seconds },
      copies, seconds)
  end
end

--- SQLite does not let several processes switch a new file to its log at once: one makes the file.
local function bare(context, copies, seconds, relaxed)
  return function()
    local path, how = fresh(context), relaxed and "normal" or "full"
    process.measure { "build/bench/sqlite_writer", path, how, "first", 0, 0 }
    local start = process.boot_time() + START_S
    return together({ "build/bench/sqlite_writer", path, how, "blob%i", start, seconds }, copies, seconds)
  end
end

local function compare(context, copies, relaxed)
  local seconds = context.rounds(1, 0.5)
  local all = series.by_turns(context.rounds(7, 2), {
    { "synod", ours(context, copies, seconds, relaxed) },
    { "SQLite", bare(context, copies, seconds, relaxed) },
  }, context.say)
  local who = copies == 1 and "alone" or copies .. " processes"
  local how = relaxed and "relaxed" or "each on the disk"
  local function show(what, unit, key, aim)
    context.show {
      name = ("%s, %s, %s"):format(what, who, how), unit = unit, ours = all.synod[key], peer = all.SQLite[key],
      peer_name = "bare SQLite", aim = aim,
    }
  end
  show("writes", "per second", "writes", { ratio = true, least = 0.7 })
  show("reads", "per second", "reads", { ratio = true, least = 0.7 })
  show("worst wait of a write", "ms", "worst", copies > 1 and { most = WORST_MS } or nil)
end

function store.run(context)
  for _, relaxed in ipairs { false, true } do
    compare(context, 1, relaxed)
    compare(context, WRITERS, relaxed)
  end
end

return store
