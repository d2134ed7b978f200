-- queue: queues and messages, as scripts see them.
--
--   local q = synod.store:queue "tasks"
--   assert(q:create())
--   assert(q:put("resize 7.jpg", { delay = 5, ttl = 3600 }))
--   for _, msg in ipairs(assert(q:get { n = 32, visibility = 60 })) do
--     work(msg.body)
--     assert(msg:delete())
--   end
--
-- The calls are the core's; this file says what they take and give, and moves messages from one queue to another.
-- docs/reference/queues.md explains them.

local options_of = require("synod.options").read

local queues = {}

local PAGE = 32       -- messages moved at a time
local VISIBILITY = 60 -- seconds that they are hidden meanwhile

---@class synod.QueuePutOptions: synod.CallOptions
---@field delay? integer  seconds until it is visible, up to 604800; 0
---@field ttl? integer    seconds until it is gone, -1: never; 604800
---@field once? boolean   not repeated when the answer is lost: AnswerLost

---@class synod.QueueGetOptions: synod.CallOptions
---@field n? integer           how many at most, 1 to 32; 1
---@field visibility? integer  seconds that they are hidden from others, 1 to 604800; 30

---@class synod.UpdateOptions: synod.CallOptions
---@field visibility integer  seconds hidden from now on; 0: visible at once
---@field body? string        another body

---@class synod.Message
---@field id string
---@field body string
---@field raw? true               the body was to be base64 and is not: it is given as it came
---@field dequeue_count integer   how often it was got
---@field inserted integer        seconds since 1970, like the next two
---@field expires? integer        nil: never
---@field next_visible? integer   not of a peeked one
---@field receipt? string         what update and delete go by; not of a peeked one
---@field queue synod.Queue
---@field update fun(self, options: synod.UpdateOptions): synod.Message|nil, synod.Refusal
---@field delete fun(self, options?: synod.CallOptions): true|nil, synod.Refusal

---@class synod.Queue
---@field create fun(self, options?: { metadata?: synod.Metadata }): true|nil, synod.Refusal  true also when it is there
---@field delete fun(self, options?: synod.CallOptions): true|nil, synod.Refusal  the queue with all its messages
---@field put fun(self, body: string, options?: synod.QueuePutOptions): synod.Message|nil, synod.Refusal
---@field get fun(self, options?: synod.QueueGetOptions): synod.Message[]|nil, synod.Refusal
---@field peek fun(self, n?: integer, options?: synod.CallOptions): synod.Message[]|nil, synod.Refusal
---@field count fun(self, options?: synod.CallOptions): integer|nil, synod.Refusal  hidden ones too
---@field clear fun(self, options?: synod.CallOptions): true|nil, synod.Refusal

--- The queue where a work queue leaves what cannot be handled.
---@param name string
---@return string
function queues.poison(name)
  return name .. "-poison"
end

--- Puts a message into a queue, then deletes it: who is interrupted in between leaves it in both, and in no case in
--- none. One that never expires does not begin to.
local function move(msg, to, call)
  local put, err = to:put(msg.body, { timeout = call.timeout, ttl = not msg.expires and -1 or nil })
  if not put then return nil, err end
  local deleted
  deleted, err = msg:delete(call)
  if not deleted and err.code ~= "MessageNotFound" then return nil, err end
  return true
end

--- Moves messages to another queue, with their bodies as they are: as many as there are at the beginning, and none that
--- is hidden. After a failure those not moved are visible again.
---@param from synod.Queue
---@param to synod.Queue
---@param options? { timeout?: number }  for each call
---@return integer|nil moved, synod.Refusal err, integer|nil moved_before
function queues.move(from, to, options)
  local call = { timeout = options_of("queue.move", options, { timeout = "seconds" }).timeout }
  local left, err = from:count(call)
  if not left then return nil, err, 0 end
  local moved = 0
  while left > 0 do
    local page
    page, err = from:get { n = math.min(left, PAGE), visibility = VISIBILITY, timeout = call.timeout }
    if not page then return nil, err, moved end
    if #page == 0 then break end
    for i, msg in ipairs(page) do
      local ok
      ok, err = move(msg, to, call)
      if not ok then
        for k = i, #page do page[k]:update { visibility = 0, timeout = call.timeout } end
        return nil, err, moved
      end
      moved, left = moved + 1, left - 1
    end
  end
  return moved
end

return queues
