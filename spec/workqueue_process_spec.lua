-- The work queue between real processes, over one file: consumers are killed and stopped, and nothing is lost.

local sh = require "spec.support.sh"

local TASKS = 200

--- Appends what it handles to a file; the last argument is how long each takes.
local CONSUMER = [[
local synod = require "synod"
local workqueue = require "synod.workqueue"
local file, seconds = ...
local out = assert(io.open(file, "a"))
local jobs = workqueue.new { name = "jobs", concurrency = 4, visibility = 2 }
assert(jobs:consume(function(msg)
  synod.sleep(tonumber(seconds))
  out:write(msg.body, "\n")
  out:flush()
end))
]]

local PRODUCER = ([[
local jobs = require("synod.workqueue").new { name = "jobs" }
for i = 1, %d do assert(jobs:push(i)) end
]]):format(TASKS)

--- Waits until the queue is empty.
local WAIT = [[
local synod = require "synod"
local jobs = require("synod.workqueue").new { name = "jobs" }
local ends = synod.now() + 20
while jobs:stats().waiting > 0 do
  assert(synod.now() < ends, "messages are left")
  synod.sleep(0.05)
end
]]

local function folder_with_scripts()
  local folder = sh.folder()
  folder:write("consumer.lua", CONSUMER)
  folder:write("producer.lua", PRODUCER)
  folder:write("wait.lua", WAIT)
  return folder
end

local function run(folder, script)
  local env = { SYNOD_STORE = "embedded:" .. folder.path .. "/store.db" }
  return sh.run(script, { dir = folder.path, timeout = 40, env = env })
end

--- Task -> how often it was handled.
local function handled(folder)
  local times, distinct = {}, 0
  for line in (folder:read("out") or ""):gmatch("[^\n]+") do
    if not times[line] then distinct = distinct + 1 end
    times[line] = (times[line] or 0) + 1
  end
  return distinct, times
end

describe("a work queue of processes", function()
  it("has every task handled though consumers are killed", function()
    local folder <close> = folder_with_scripts()
    local output, code = run(folder, [[
      $SYNOD $DIR/producer.lua || exit 1
      $SYNOD $DIR/consumer.lua $DIR/out 0.02 & a=$!
      $SYNOD $DIR/consumer.lua $DIR/out 0.02 & b=$!
      $SYNOD $DIR/consumer.lua $DIR/out 0.02 & c=$!
      sleep 0.3; kill -9 $a; sleep 0.1; kill -9 $b
      $SYNOD $DIR/wait.lua; code=$?
      kill $c; wait $c; [ $code = 0 ]
    ]])
    assert.equal(0, code, output)
    assert.equal(TASKS, (handled(folder)))
  end)

  it("hands over at once what a stopped consumer has not begun, and ends without an error", function()
    local folder <close> = folder_with_scripts()
    local output, code = run(folder, [[
      $SYNOD $DIR/producer.lua || exit 1
      $SYNOD $DIR/consumer.lua $DIR/out 0.1 & a=$!
      sleep 0.5; kill $a; wait $a || exit 2
      $SYNOD $DIR/consumer.lua $DIR/out 0 & b=$!
      $SYNOD $DIR/wait.lua; code=$?
      kill $b; wait $b || exit 3; [ $code = 0 ]
    ]])
    assert.equal(0, code, output)
    local distinct, times = handled(folder)
    assert.equal(TASKS, distinct)
    for task, n in next, times do assert.equal(1, n, "task " .. task) end
  end)
end)
