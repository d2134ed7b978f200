-- head-node: a job in three parts; a head node does the first and the last alone, everybody does the middle.
--
--   synod run -n 4 head-node.lua [CHUNKS]       goes on when a majority is up; kill the head and another takes over
--
-- The head node is nominated by a quorum: before a majority is up there is none, and when the majority is gone it steps
-- down. Pre-work splits the job into chunks, all nodes work on them, post-work puts the results together. How far the
-- job has come stands in the store, written under the head's fence, so that the next head goes on from there.
-- Exit codes: 0; 4 no majority within a minute; 3 no store.

local synod = require "synod"
local quorum = require "synod.quorum"
local scatter = require "synod.scatter"

local chunks = math.tointeger(tonumber((...))) or 12
local me = synod.instance
local folder = synod.store:container "head-node"
local stage = folder:blob(me.deployment or "stage")
assert(folder:create())

local nodes <close> = quorum.new { name = "head-node", need = "majority", member_ttl = 6 }
local work = scatter.new { name = "head-node", poll_min = 0.05 }

--- How far the job has come: "", "split", "done".
local function progress()
  local text, err = stage:get()
  if not text and err.code ~= "BlobNotFound" then error(err, 0) end
  return text or ""
end

local function pre_work(term)
  print(("%s is the head: pre-work"):format(me.id))
  synod.sleep(0.2)
  assert(term:put(stage, "split"))
end

local function post_work(term, results)
  local sum = 0
  for i = 1, results.n do sum = sum + results[i] end
  print(("post-work: the sum is %d"):format(sum))
  assert(term:put(stage, "done"))
end

local function lead(term)
  if progress() == "" then pre_work(term) end
  if progress() == "split" then
    local list = {}
    for i = 1, chunks do list[i] = i end
    post_work(term, assert(work:map(list, { timeout = 300, job = "job-" .. (me.deployment or "one") })))
  end
  return true
end

--- Everybody's part.
local working = synod.spawn(work.work, work, function(chunk)
  print(("%s works on chunk %d"):format(me.id, chunk))
  synod.sleep(0.05)
  return chunk * chunk
end)

local function wait_done()
  return assert(require("synod.backoff").poll(function() return progress() == "done" end,
    { store = synod.store, container = "head-node", timeout = 300, max = 1 }))
end

--- Stands for the head; one that comes when all is done finds no quorum any more, and needs none.
local function stand()
  local up = assert(nodes:wait { timeout = 60 })
  print(("%d of the nodes are up, %d are needed"):format(up.count, up.need))
  nodes:head(lead)
  return wait_done()
end

synod.race { wait_done, stand }
work:drain {}
assert(working:join())
