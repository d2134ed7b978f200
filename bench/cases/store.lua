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
  local sum = { speed = 0, worst = 0 }
  local objects = process.objects(process.measure(command).output)
  assert(#objects == copies, "a process said nothing")
  for _, each in ipairs(objects) do
    sum.speed = sum.speed + each.count / seconds
    sum.worst = math.max(sum.worst, each.worst_ms)
  end
  return sum
end

---@class bench.StoreTest
---@field what "write"|"read"
---@field copies integer
---@field relaxed boolean

local function ours(context, test, seconds)
  return function()
    local url = "embedded:" .. fresh(context) .. (test.relaxed and "?relaxed" or "")
    local start = process.boot_time() + START_S
    return together({ "build/synod", "run", "--store", url, "bench/ours/writer.lua", test.what, "blob%i", start,
      seconds }, test.copies, seconds)
  end
end

--- SQLite does not let several processes switch a new file to its log at once: one makes the file.
local function bare(context, test, seconds)
  return function()
    local path, how = fresh(context), test.relaxed and "normal" or "full"
    process.measure { "build/bench/sqlite_writer", path, how, "write", "first", 0, 0 }
    local start = process.boot_time() + START_S
    return together({ "build/bench/sqlite_writer", path, how, test.what, "blob%i", start, seconds }, test.copies,
      seconds)
  end
end

local function compare(context, test)
  local seconds = context.rounds(1, 0.5)
  local all = series.by_turns(context.rounds(7, 2), {
    { "synod", ours(context, test, seconds) },
    { "SQLite", bare(context, test, seconds) },
  }, context.say)
  local name = ("%ss, %s"):format(test.what, test.copies == 1 and "alone" or test.copies .. " processes")
  if test.what == "write" then name = name .. (test.relaxed and ", relaxed" or ", each to the disk") end
  local function show(what, unit, key, aim)
    context.show {
      name = what, unit = unit, ours = all.synod[key], peer = all.SQLite[key], peer_name = "bare SQLite", aim = aim,
    }
  end
  show(name, "per second", "speed", { ratio = true, least = 0.7 })
  if test.what == "write" then
    show(name .. ", worst wait", "ms", "worst", test.copies > 1 and { most = WORST_MS } or nil)
  end
end

function store.run(context)
  for _, relaxed in ipairs { false, true } do
    compare(context, { what = "write", copies = 1, relaxed = relaxed })
    compare(context, { what = "write", copies = WRITERS, relaxed = relaxed })
  end
  compare(context, { what = "read", copies = 1, relaxed = false })
  compare(context, { what = "read", copies = WRITERS, relaxed = false })
end

return store
