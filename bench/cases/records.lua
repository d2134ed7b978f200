-- records.lua: messages and entities on the embedded store.

local process = require "harness.process"
local series = require "harness.series"

local records = { title = "Messages and entities on the embedded store" }

local NAMES = { message = "a message put, got and deleted", entity = "an entity upserted" }

local files = 0

--- A file of its own for each measurement.
local function fresh(context)
  files = files + 1
  return ("%s/records-%d.db"):format(context.work, files)
end

local function speed(command, seconds)
  local got = process.ask(command)
  return { speed = got.count / seconds, worst = got.worst_ms }
end

local function compare(context, what, relaxed)
  local seconds = context.rounds(1, 0.5)
  local all = series.by_turns(context.rounds(9, 3), {
    { "synod", function()
      local url = "embedded:" .. fresh(context) .. (relaxed and "?relaxed" or "")
      return speed({ "build/synod", "run", "--store", url, "bench/ours/records.lua", what, seconds }, seconds)
    end },
    { "SQLite", function()
      local level = relaxed and "normal" or "full"
      return speed({ "build/bench/sqlite_records", fresh(context), level, what, seconds }, seconds)
    end },
  }, context.say)
  local name = NAMES[what] .. (relaxed and ", relaxed" or ", each to the disk")
  local function show(shown, unit, key)
    context.show {
      name = shown, unit = unit, ours = all.synod[key], peer = all.SQLite[key], peer_name = "bare SQLite",
    }
  end
  show(name, "per second", "speed")
  show(name .. ", worst wait", "ms", "worst")
end

function records.run(context)
  for _, what in ipairs { "message", "entity" } do
    compare(context, what, false)
    compare(context, what, true)
  end
end

return records
