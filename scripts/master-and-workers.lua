-- master-and-workers: one instance hands pieces of a job out, all work on them, and it collects the results in order.
--
--   synod run -n 4 master-and-workers.lua [PIECES]      counts primes, 10,000 numbers a piece (20 pieces)
--
-- A piece whose worker dies is worked on by another; a piece has one result, whoever works on it twice. A master that
-- is started again in its deployment goes on where it was. Exit codes: 0; 1 a piece failed for good; 4 pieces are
-- missing after five minutes (the message counts them); 3 no store.

local synod = require "synod"
local scatter = require "synod.scatter"

local pieces = math.tointeger(tonumber((...))) or 20
local SIZE = 10000
local primes = scatter.new { name = "primes", concurrency = 1, reissue = 20, poll_min = 0.05 }
local me = synod.instance
assert(synod.store:container "scatter":create { timeout = 60 }) -- workers would wait for a store that is not there

local function is_prime(n)
  for d = 2, math.floor(math.sqrt(n)) do
    if n % d == 0 then return false end
  end
  return n > 1
end

local function work(piece)
  local found = 0
  for n = piece.from, piece.to do
    if is_prime(n) then found = found + 1 end
    if n % 1000 == 0 then synod.yield() end
  end
  return found
end

local working = synod.spawn(primes.work, primes, work)
local over = synod.store:container "scatter":blob(("primes/over-%s"):format(me.deployment or "now"))

if (me.ordinal or 0) == 0 then
  local list = {}
  for i = 1, pieces do list[i] = { from = (i - 1) * SIZE + 1, to = i * SIZE } end
  local results = assert(primes:map(list, {
    timeout = 300, progress = function(done, count) print(("%d of %d pieces"):format(done, count)) end,
  }))
  local sum = 0
  for i = 1, results.n do sum = sum + results[i] end
  print(("%d primes up to %d"):format(sum, pieces * SIZE))
  assert(over:put "")
else
  assert(require("synod.backoff").poll(function() return over:head() end,
    { store = synod.store, container = "scatter", timeout = 300, max = 1 }))
end
primes:drain {}
assert(working:join())
