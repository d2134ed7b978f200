-- Drawn worlds: consumers that crash at any moment, over a store that loses, delays and refuses. Nothing may be lost,
-- and no message is ever handled by two at once.

local core = require "synod.core"
local fleet = require "spec.support.fleet"
local log = require "synod.log"
local sh = require "spec.support.sh"
local synod = require "synod"
local workqueue = require "synod.workqueue"

local WORLDS = math.tointeger(tonumber(os.getenv "SYNOD_WORLDS" or 40))
local TASKS, CONSUMERS = 30, 3
local VISIBILITY_S = 5
local PATIENCE_S = 600

local KINDS = { "lost-request", "lost-response", "throttle", "delay" }
local OPERATIONS = { "GetMessages", "UpdateMessage", "DeleteMessage" } -- a lost answer of a put is a second message

setup(function() log.configure { level = "error" } end)
teardown(function() log.configure { level = "info" } end)

local function draw(n) return math.floor(core.random() * n) + 1 end

local function draw_faults()
  local faults = {}
  for _ = 1, draw(30) do
    faults[#faults + 1] = {
      kind = KINDS[draw(#KINDS)], operation = OPERATIONS[draw(#OPERATIONS)], ordinal = draw(40),
      seconds = core.random() * 4,
    }
  end
  return faults
end

--- One life of a consumer, over a store of its own: closing it is a crash.
local function live(w, url, n, seconds)
  local own = assert(core.open_store(url, { faults = draw_faults() }))
  local q = workqueue.new {
    name = "tasks", store = own, instance = { id = "worker_IN_" .. n }, visibility = VISIBILITY_S, concurrency = 3,
    max_attempts = 4, retry = { min = 1, max = 4 },
  }
  local consuming = synod.spawn(function()
    return q:consume(function(msg)
      if w.inside[msg.id] then w.overlap = ("task %d was handled by two at once"):format(msg.body) end
      w.inside[msg.id] = true
      local _ <close> = setmetatable({}, { __close = function() w.inside[msg.id] = nil end })
      synod.sleep(core.random() * 9)
      if msg.body % 7 == 0 then error("never", 0) end
      if core.random() < 0.1 then error("now and then", 0) end
      w.handled[msg.body] = true
    end)
  end)
  synod.sleep(seconds)
  if core.random() < 0.3 then
    q:drain { timeout = core.random() * 5 }
  else
    for _, watcher in ipairs(q.consumer.watchers) do watcher:cancel() end
    for _, t in next, q.consumer.held do t:cancel() end
    w.crashes = w.crashes + 1
    own:close()
  end
  consuming:cancel()
  pcall(consuming.join, consuming)
end

local function judge(w, store)
  assert(not w.overlap, w.overlap)
  for body = 1, TASKS do
    if body % 7 == 0 then
      assert(not w.handled[body], "a task that fails was handled")
    else
      assert(w.handled[body] or w.poisoned[body], ("task %d was lost"):format(body))
    end
  end
  for body = 7, TASKS, 7 do assert(w.poisoned[body], ("task %d is not in the poison queue"):format(body)) end
  assert(store:queue("tasks"):count() == 0, "messages are left")
end

local function world(seed)
  local w = { handled = {}, inside = {}, poisoned = {}, crashes = 0 }
  local folder <close> = sh.folder()
  local url = "embedded:" .. folder.path .. "/store.db?relaxed"
  fleet.run(function(store)
    local q = workqueue.new { name = "tasks", store = store, instance = { id = "master" } }
    for body = 1, TASKS do assert(q:push(body)) end
    local lives = {}
    for n = 1, CONSUMERS do
      lives[n] = function()
        local ends = synod.now() + 40
        while synod.now() < ends do live(w, url, n, core.random() * 15) end
        local left = synod.now() + PATIENCE_S
        while store:queue("tasks"):count() > 0 and synod.now() < left do live(w, url, n, 60) end
      end
    end
    synod.all(lives)
    for _, message in ipairs(store:queue("tasks-poison"):get { n = 32 } or {}) do
      w.poisoned[require("synod.json").decode(message.body).body] = true
    end
    judge(w, store)
  end, { url = url, seed = seed })
  return w
end

describe("a work queue in drawn worlds", function()
  it(("neither loses a task nor has it handled by two at once, in %d of them"):format(WORLDS), function()
    local crashes = 0
    for seed = 1, WORLDS do
      local ok, w = pcall(world, seed)
      assert.is_true(ok, ("seed %d: %s"):format(seed, tostring(w)))
      crashes = crashes + w.crashes
    end
    assert.is_true(crashes > WORLDS, "the worlds must be dangerous: " .. crashes .. " crashes")
  end)
end)
