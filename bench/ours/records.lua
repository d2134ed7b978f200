-- records.lua: messages put, got and deleted, or entities upserted, as often as it can.
--
--   synod run --store URL records.lua message|entity SECONDS

local synod = require "synod"

local what, seconds = arg[1], tonumber(arg[2])
local BODY = "a task, its file, a few bytes of state: what a queue carries...."
local ENTITIES = 1000

--- What is repeated: a function of how often it was called.
local kinds = {}

function kinds.message()
  local queue = synod.store:queue "bench"
  assert(queue:create())
  return function()
    assert(queue:put(BODY))
    local msg = assert(queue:get())[1]
    if msg.body ~= BODY then error("the message came back changed") end
    assert(msg:delete())
  end
end

function kinds.entity()
  local entities = synod.store:table "bench"
  assert(entities:create())
  return function(count)
    local row = tostring(count % ENTITIES)
    assert(entities:upsert { partition = "worker", row = row, state = "ready", port = 8080, load = 0.5 })
  end
end

local once = kinds[what]()
once(0)
local count, worst, at = 0, 0, synod.now()
local finish = at + seconds
while at < finish do
  local before = at
  count = count + 1
  once(count)
  at = synod.now()
  worst = math.max(worst, at - before)
end
print(('{"count":%d,"worst_ms":%.3f}'):format(count, worst * 1e3))
