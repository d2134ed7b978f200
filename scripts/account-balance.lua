-- account-balance: transfers between two accounts, one at a time, each within two seconds or not at all.
--
--   synod run -n 4 account-balance.lua [TRANSFERS]        each instance makes so many (10); one in ten is slow
--
-- A transfer is two writes. Before the first it notes in a journal what was there; whoever holds the lock and finds
-- a journal takes the transfer back that somebody could not finish. One that takes longer than two seconds is stopped
-- and rolled back by its own holder; one whose holder dies, or is cut off from its lock, by the next. Writes have the
-- fence: who was stopped for long cannot write over a later one. Exit codes: 0; 1 money was lost or made; 3 no store.

local synod = require "synod"
local mutex = require "synod.mutex"

local LIMIT_S = 2
local START = { alice = 1000, bob = 1000 }
local CUT = { LeaseLost = true, Fenced = true, Timeout = true } -- a renewal came too late, or a write

local transfers = math.tointeger(tonumber((...))) or 10
local me, lock = synod.instance, mutex.new { name = "accounts", ttl = 2 } -- fails over in two to three seconds
local accounts = synod.store:container "accounts"
local journal = accounts:blob "journal"
assert(accounts:create())

local function balance(who) return math.tointeger(tonumber((assert(accounts:blob(who):get())))) end
local function write(held, who, amount) assert(held:put(accounts:blob(who), tostring(amount))) end

--- Takes back what the journal says was begun and not finished.
local function roll_back(held)
  local text, err = journal:get()
  if not text then return err.code == "BlobNotFound" or error(err, 0) end
  for who, amount in text:gmatch "(%a+)=(%d+)" do write(held, who, amount) end
  assert(journal:delete())
  print "took a transfer back that was not finished"
end

local function transfer(held, from, to, amount, slow)
  roll_back(held)
  local before = { [from] = balance(from), [to] = balance(to) }
  if before[from] < amount then return "declined" end
  assert(held:put(journal, ("%s=%d %s=%d"):format(from, before[from], to, before[to])))
  write(held, from, before[from] - amount)
  if slow then synod.sleep(LIMIT_S + 1) end -- a partner that does not answer
  write(held, to, before[to] + amount)
  assert(journal:delete())
  return "done"
end

--- Runs fn under the lock. Nil: the lock could not be kept, by a machine that was too busy, say.
local function locked(fn)
  local ok, result, err = pcall(lock.with, lock, fn)
  if ok then return assert(result, err) end
  if not CUT[type(result) == "table" and result.code] then error(result, 0) end
end

--- What there is altogether. Accounts that are not there yet are opened.
local function sum_up(held)
  local sum = 0
  roll_back(held)
  for who, amount in pairs(START) do
    if not accounts:blob(who):head() then write(held, who, amount) end
    sum = sum + balance(who)
  end
  return sum
end

repeat until locked(sum_up)
local count, sum = { done = 0, declined = 0, ["cut off"] = 0, ["rolled back"] = 0 }
for i = 1, transfers do
  local from, to = table.unpack(math.random(2) == 1 and { "alice", "bob" } or { "bob", "alice" })
  local outcome = locked(function(held)
    local slow = i % 10 == (me.ordinal or 0) % 10 + 1
    local result, late = synod.timeout(LIMIT_S, transfer, held, from, to, math.random(300), slow)
    if late then roll_back(held) end
    return result or "rolled back"
  end) or "cut off"
  count[outcome] = count[outcome] + 1
end
repeat sum = locked(sum_up) until sum
print(("%d done, %d declined, %d cut off, %d rolled back; the accounts have %d together"):format(
  count.done, count.declined, count["cut off"], count["rolled back"], sum))
assert(sum == START.alice + START.bob, "money was lost or made")
