-- queue.lua: work handed over by a queue: put, got and removed, one message on the way at a time.

local process = require "harness.process"
local series = require "harness.series"
local servers = require "harness.servers"

local queue = { title = "A queue: a message put, got and removed" }

local files = 0

local function embedded(context, how, script, ...)
  local command = { "build/synod", "run", "--store", "", "bench/ours/" .. script, ... }
  return function()
    files = files + 1
    command[4] = ("embedded:%s/queue-%d.db%s"):format(context.work, files, how)
    return process.ask(command)
  end
end

--- Messages a second, and the longest that one took.
local function speed(measure, seconds)
  return function()
    local got = measure()
    return { speed = got.count / (got.seconds or seconds), worst = got.worst_ms }
  end
end

local function compare(context, peers, relaxed)
  local seconds = context.rounds(1, 0.5)
  local how = relaxed and "?relaxed" or ""
  local server = peers[relaxed and "redis" or "redis-disk"]
  local measures = {
    { "work queue", speed(embedded(context, how, "jobs.lua", seconds)) },
    { "queue", speed(embedded(context, how, "records.lua", "message", seconds), seconds) },
  }
  if server then
    measures[3] = { "redis", speed(function()
      return process.ask { "build/bench/redis", server.port, "queue", seconds }
    end, seconds) }
  end
  local all = series.by_turns(context.rounds(9, 3), measures, context.say)
  for _, name in ipairs { "work queue", "queue" } do
    local shown = ("%s, %s"):format(name, relaxed and "relaxed" or "each to the disk")
    local peer_name = server and (relaxed and "redis, in memory" or "redis, each to the disk")
    local function show(text, unit, key)
      context.show {
        name = shown .. text, unit = unit, ours = all[name][key], peer = server and all.redis[key],
        peer_name = peer_name,
      }
    end
    show("", "per second", "speed")
    show(", worst wait", "ms", "worst")
  end
end

function queue.run(context)
  local peers <close> = servers.start(context, { "redis-disk", "redis" })
  compare(context, peers, false)
  compare(context, peers, true)
end

return queue
