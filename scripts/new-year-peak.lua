-- new-year-peak: orders are queued as fast as they come and worked off as fast as one can.
--
--   synod run -n 4 new-year-peak.lua [ORDERS]         instance 0 pushes so many (200), all of them work
--
-- Orders are fetched in batches of eight; an idle instance looks less and less often, and is woken by a push. An order
-- that fails is tried again after a back-off of its own; one that can never be done goes to the poison queue with the
-- reason (synod store queue peek orders-poison). Each order's effect is written under its id, created once, so that an
-- order that is handled twice counts once. Exit codes: 0 all orders are settled; 4 not within two minutes; 3 no store.

local synod = require "synod"
local workqueue = require "synod.workqueue"

local count = math.tointeger(tonumber((...))) or 200
local me = synod.instance
local settled = synod.store:container "settled"
assert(settled:create())

local orders = workqueue.new {
  name = "orders", concurrency = 8, batch = 8, visibility = 20, max_attempts = 3,
  retry = { min = 1, max = 4 }, poll_min = 0.05, poll_max = 2,
  poisoned = function(msg) settled:blob(msg.id):put("poison", { if_none_match = "*" }) end,
}

local function handle(msg)
  local order = msg.body
  if order.amount < 0 then return msg:reject "the amount is negative" or true end
  if order.number % 20 == 7 and msg.attempt == 1 then return nil, "the printer is out of paper" end
  synod.sleep(0.005)
  local written, err = settled:blob(msg.id):put(me.id, { if_none_match = "*" })
  return written or err.code == "BlobAlreadyExists" or nil, err
end

local function push_all()
  for number = 1, count do
    local order = { number = number, amount = number % 50 == 0 and -1 or number }
    assert(orders:push(order, { id = ("order-%05d"):format(number) }))
  end
  print(("%d orders pushed"):format(count))
end

--- How many orders are settled.
local function look()
  local n = 0
  for _ in settled:list { prefix = "order-" } do n = n + 1 end
  return n >= count and n
end

local consuming = synod.spawn(orders.consume, orders, handle)
if (me.ordinal or 0) == 0 then push_all() end
local done = assert(require("synod.backoff").poll(look, { timeout = 120, min = 0.2, max = 2 }))
orders:drain {}
assert(consuming:join())
local figures = assert(orders:stats())
print(("%d settled by all; here %d done, %d failed first, %d poisoned"):format(
  done, figures.done, figures.failed, figures.poisoned))
