-- Every call on queues as one list of cases: the same calls give the same results on each store. A case makes calls and
-- says their outcomes through `t`; the list beside it is what must come out. Instants are in queue_time_spec.lua.

local core = require "synod.core"
local differences = require "spec.azure.differences"
local sh = require "spec.support.sh"

--- "ok", true, or the code and status of a refusal.
local function outcome(first, second)
  if first == nil and second ~= nil then return second.code .. " " .. tostring(second.status) end
  if type(first) == "table" then return "ok" end
  if first == nil then return "nil" end
  return first
end

local counter = 0
local function fresh()
  counter = counter + 1
  return ("case-%d-%d"):format(counter, os.time())
end

local function bodies(messages)
  local list = {}
  for i, msg in ipairs(assert(messages)) do list[i] = msg.body end
  return table.concat(list, " ")
end

--- The same message under another receipt or id.
local function forged(msg, fields)
  local copy = {}
  for name, value in pairs(msg) do copy[name] = value end
  for name, value in pairs(fields) do copy[name] = value end
  return setmetatable(copy, getmetatable(msg))
end

---@type { [1]: string, [2]: fun(t: fun(...), q: synod.Queue, s: synod.Store), [3]: any[] }[]
local CASES = {
  -- queues
  { "a queue: made twice, removed, gone", function(t, _, s)
    local q = s:queue(fresh())
    t(q:count())
    t(q:create())
    t(q:create())
    t(q:put "x")
    t(q:delete())
    t(q:delete())
    t(q:create())
    t(q:count())
    t(q:delete())
  end, { "QueueNotFound 404", true, true, "ok", true, "QueueNotFound 404", true, 0, true } },
  { "made again with the same metadata, and with other", function(t, _, s)
    local q = s:queue(fresh())
    t(q:create { metadata = { a = "1", b = "2" } })
    t(q:create { metadata = { b = "2", A = "1" } })
    t(q:create { metadata = { a = "1" } })
    t(q:create { metadata = { a = "1", b = "2", c = "3" } })
    t(q:create { metadata = { a = "1", b = "3" } })
    t(q:create())
    t(q:delete())
  end, { true, true, "QueueAlreadyExists 409", "QueueAlreadyExists 409", "QueueAlreadyExists 409",
    "QueueAlreadyExists 409", true } },
  { "every call on a queue that is absent", function(t, q, s)
    local absent = s:queue(fresh())
    local msg = forged(assert(q:put "x"), { queue = absent })
    t(absent:put "x")
    t(absent:get())
    t(absent:peek())
    t(absent:count())
    t(absent:clear())
    t(msg:update { visibility = 0 })
    t(msg:delete())
  end, { "QueueNotFound 404", "QueueNotFound 404", "QueueNotFound 404", "QueueNotFound 404", "QueueNotFound 404",
    "QueueNotFound 404", "QueueNotFound 404" } },
  { "the list of queues", function(t, _, s)
    local stem = fresh()
    for _, name in ipairs { "-b", "-a", "-c" } do s:queue(stem .. name):create { metadata = { which = name } } end
    for item in s:queues { prefix = stem, metadata = true, page = 2 } do
      t(item.name == stem .. item.metadata.which and item.metadata.which)
    end
    for item in s:queues { prefix = stem } do t(item.metadata) end
    for _, name in ipairs { "-b", "-a", "-c" } do t(s:queue(stem .. name):delete()) end
  end, { "-a", "-b", "-c", "nil", "nil", "nil", true, true, true } },

  -- messages
  { "a message put, seen, got, deleted", function(t, q)
    local put = assert(q:put "hello")
    t(put.body)
    t(put.dequeue_count)
    t(put.expires - put.inserted)
    t(put.next_visible - put.inserted)
    local seen = assert(q:peek())[1]
    t(seen.id == put.id and seen.body == "hello" and seen.dequeue_count == 0 and seen.inserted == put.inserted)
    t(seen.receipt)
    t(seen.next_visible)
    local got = assert(q:get())[1]
    t(got.id == put.id and got.body == "hello" and got.expires == put.expires)
    t(got.dequeue_count)
    t(got.receipt ~= put.receipt)
    t(q:get())
    t(#q:get())
    t(#q:peek(32))
    t(q:count())
    t(got:delete())
    t(got.receipt)
    t(q:count())
  end, { "hello", 0, 604800, 0, true, "nil", "nil", true, 1, true, "ok", 0, 0, 1, true, "nil", 0 } },
  { "messages come in the order in which they were put, and those shown again behind them", function(t, q)
    for _, body in ipairs { "a", "b", "c", "d" } do assert(q:put(body)) end
    t(bodies(q:peek(3)))
    local first = q:get()[1]
    t(first.body)
    t(first:update { visibility = 0 })
    t(bodies(q:peek(32)))
    t(bodies(q:get { n = 32 }))
  end, { "a b c", "a", "ok", "b c d a", "b c d a" } },
  { "golden case 9: no two gets share a message", function(t, q)
    local seen = {}
    for i = 1, 10 do assert(q:put(tostring(i))) end
    for _ = 1, 4 do
      local list = assert(q:get { n = 4 })
      t(#list)
      for _, msg in ipairs(list) do seen[msg.id] = (seen[msg.id] or 0) + 1 end
    end
    local ids = 0
    for _, times in pairs(seen) do ids = ids + times end
    t(ids)
  end, { 4, 4, 2, 0, 10 } },
  { "golden case 9: update replaces the receipt, and the count rises only on get", function(t, q)
    assert(q:put "x")
    local msg = assert(q:get())[1]
    local old = msg.receipt
    t(msg:update { visibility = 100 } == msg)
    t(msg.receipt ~= old)
    t(msg.dequeue_count)
    local stale = forged(msg, { receipt = old })
    t(stale:update { visibility = 0 })
    t(stale:delete())
    t(msg:update { visibility = 0 })
    t(q:peek()[1].dequeue_count)
    local again = q:get()[1]
    t(again.dequeue_count)
    t(msg:delete())
    t(again:delete())
  end, { true, true, 1, "PopReceiptMismatch 400", "PopReceiptMismatch 400", "ok", 1, 2, "PopReceiptMismatch 400",
    true } },
  { "the receipt of a put serves until the first get", function(t, q)
    local first, second = assert(q:put "a"), assert(q:put "b")
    t(first:update { visibility = 0, body = "c" })
    t(bodies(q:peek(2)))
    t(first:delete())
    t(#q:get())
    t(second:delete())
  end, { "ok", "b c", true, 1, "PopReceiptMismatch 400" } },
  { "a message that is gone, and the receipt of another", function(t, q)
    local first, second = assert(q:put "a"), assert(q:put "b")
    t(forged(first, { receipt = second.receipt .. "x" }):delete())
    local copy = forged(first, {})
    t(first:delete())
    t(copy:delete())
    t(copy:update { visibility = 0 })
    t(forged(second, { id = "00000000-0000-0000-0000-000000000000" }):delete())
  end, { "PopReceiptMismatch 400", true, "MessageNotFound 404", "MessageNotFound 404", "MessageNotFound 404" } },
  { "update with another body, and without", function(t, q)
    assert(q:put "one")
    local msg = q:get()[1]
    t(msg:update { visibility = 0, body = "two" })
    t(msg.body)
    msg = q:get()[1]
    t(msg.body)
    t(msg:update { visibility = 0 })
    msg = q:get()[1]
    t(msg.body)
    t(msg:update { visibility = 0, body = "" })
    t(q:get()[1].body)
  end, { "ok", "two", "two", "ok", "two", "ok", "" } },
  { "count has the hidden ones, clear takes them too", function(t, q)
    for i = 1, 5 do assert(q:put(tostring(i), { delay = i == 5 and 100 or 0 })) end
    local taken = q:get { n = 2 }
    t(q:count())
    t(#q:peek(32))
    t(q:clear())
    t(q:count())
    t(#q:get())
    t(taken[1]:delete())
    t(q:clear())
  end, { 5, 2, true, 0, 0, "MessageNotFound 404", true } },
  { "a message that never expires", function(t, q)
    t(q:put("x", { ttl = -1 }).expires)
    t(q:get()[1].expires)
    local msg = q:put("y", { ttl = 1000000000 })
    t(msg.expires - msg.inserted)
    t(q:put("z", { ttl = 10000000000 }).expires)
  end, { "nil", "nil", 1000000000, "nil" } },

  -- what is out of range
  { "how many", function(t, q)
    for _, n in ipairs { 0, 33, -1, 1 } do
      t(q:get { n = n })
      t(q:peek(n))
    end
    t(q:get { n = 32 })
    t(q:peek(32))
  end, { "OutOfRangeQueryParameterValue 400", "OutOfRangeQueryParameterValue 400", "OutOfRangeQueryParameterValue 400",
    "OutOfRangeQueryParameterValue 400", "OutOfRangeQueryParameterValue 400", "OutOfRangeQueryParameterValue 400",
    "ok", "ok", "ok", "ok" } },
  { "how long hidden", function(t, q)
    t(q:get { visibility = 0 })
    t(q:get { visibility = 604801 })
    t(q:get { visibility = 604800 })
    t(q:put("x", { delay = 604801 }))
    t(q:put("x", { delay = 604800, ttl = -1 }))
    t(q:put("x", { delay = 604799 }))
    local msg = q:put("y", { ttl = -1 })
    t(msg:update { visibility = 604801 })
    t(msg:update { visibility = 604800 })
  end, { "OutOfRangeQueryParameterValue 400", "OutOfRangeQueryParameterValue 400", "ok",
    "OutOfRangeQueryParameterValue 400", "ok", "ok", "OutOfRangeQueryParameterValue 400", "ok" } },
  { "how long it lives", function(t, q)
    t(q:put("x", { ttl = 0 }))
    t(q:put("x", { ttl = -2 }))
    t(q:put("x", { ttl = 1 }))
    t(q:put("x", { ttl = 5, delay = 5 }))
    t(q:put("x", { ttl = 6, delay = 5 }))
    t(q:put("x", { ttl = 5, delay = 6 }))
  end, { "InvalidQueryParameterValue 400", "InvalidQueryParameterValue 400", "ok", "InvalidQueryParameterValue 400",
    "ok", "InvalidQueryParameterValue 400" } },
  { "hidden for as long as it lives when nothing is said", function(t, q)
    t(q:put("x", { delay = 604800 }))
  end, { "InvalidQueryParameterValue 400" } },
  { "hidden beyond its expiry", function(t, q)
    local msg = assert(q:put("x", { ttl = 100 }))
    t(msg:update { visibility = 200 })
    t(msg:update { visibility = 50 })
  end, { "InvalidQueryParameterValue 400", "ok" } },
  { "64 KiB and one byte more", function(t, q)
    t(q:put(("x"):rep(65536)))
    t(q:put(("x"):rep(65537)))
    t(q:put(("<"):rep(65536)))
    for _, msg in ipairs(q:get { n = 3 }) do t(#msg.body) end
    local msg = q:put "x"
    t(msg:update { visibility = 0, body = ("x"):rep(65537) })
    t(msg:update { visibility = 0, body = ("x"):rep(65536) })
  end, { "ok", "RequestBodyTooLarge 413", "ok", 65536, 65536, "RequestBodyTooLarge 413", "ok" } },
  { "64 KiB are bytes and not characters", function(t, q)
    t(q:put(("é"):rep(32768)))
    t(q:put(("é"):rep(32768) .. "x"))
    t(#q:get()[1].body)
  end, { "ok", "RequestBodyTooLarge 413", 65536 } },

  -- bodies
  { "texts of every kind come back as they were", function(t, q)
    for _, body in ipairs { "", "x", "a b", "<a b='c'>&amp;</a>", "]]>", "&#13;", "line\nline\n", "cr\rlf\r\n", "\ttab",
      "ü€日本\u{1F600}", "\u{FFFD}\u{2028}\u{85}", '"quoted"', "'", "%20+" } do
      assert(q:put(body))
      local msg = assert(q:get())[1]
      t(msg.body == body or body .. " became " .. msg.body)
      assert(msg:update { visibility = 0, body = "!" .. body })
      msg = assert(q:get())[1]
      t(msg.body == "!" .. body or body .. " became " .. msg.body)
      assert(msg:delete())
    end
  end, { true, true, true, true, true, true, true, true, true, true, true, true, true, true, true, true, true, true,
    true, true, true, true, true, true, true, true, true, true } },
  { "texts with blanks at their ends", function(t, q)
    for _, body in ipairs { " x ", "\nx\n", " ", "\r\n" } do
      assert(q:put(body))
      local msg = assert(q:get())[1]
      t(("%q"):format(msg.body) == ("%q"):format(body))
      assert(msg:delete())
    end
  end, { true, true, true, true } },
  { "base64: any bytes", function(t, q, s)
    local name = tostring(q):match "%S+$"
    local b = s:queue(name, { base64 = true })
    local all = {}
    for i = 0, 255 do all[#all + 1] = string.char(i) end
    for _, body in ipairs { table.concat(all), "", "\0", "\255\254", "plain" } do
      t(b:put(body).body == body)
      local text = q:peek()[1].body
      t(text:find "^[%w+/=]*$" ~= nil)
      local msg = b:get()[1]
      t(msg.body == body)
      t(msg.raw)
      t(msg:update { visibility = 0, body = body .. "\0" })
      t(b:peek()[1].body == body .. "\0")
      t(msg:delete())
    end
  end, (function()
    local each, all = { true, true, true, "nil", "ok", true, true }, {}
    for _ = 1, 5 do table.move(each, 1, #each, #all + 1, all) end
    return all
  end)() },
  { "base64: what another client put as it is, is given as it is", function(t, q, s)
    local b = s:queue(tostring(q):match "%S+$", { base64 = true })
    assert(q:put "not base64!")
    local msg = b:get()[1]
    t(msg.body)
    t(msg.raw)
    t(msg:update { visibility = 0, body = "now it is" })
    t(msg.raw)
    t(q:peek()[1].body)
  end, { "not base64!", true, "ok", "nil", "bm93IGl0IGlz" } },
  { "base64: 48 KiB become 64", function(t, q, s)
    local b = s:queue(tostring(q):match "%S+$", { base64 = true })
    t(b:put(("\0"):rep(49152)))
    t(b:put(("\0"):rep(49153)))
    t(#b:get()[1].body)
  end, { "ok", "RequestBodyTooLarge 413", 49152 } },
}

--- What Azurite answers otherwise than the service is listed: spec/azure/differences.lua.
local function expected(case, place)
  for _, row in ipairs(place.name == "Azurite" and differences or {}) do
    if row.spec == "spec/store/queue_spec.lua" and row.case == case[1] then return row.azurite end
  end
  return case[3]
end

local function run_case(store, case, place)
  local said = {}
  local q = store:queue(fresh())
  assert(q:create())
  local _ <close> = place.apart and place.apart(q)
  case[2](function(...) said[#said + 1] = outcome(...) end, q, store)
  q:delete()
  return said
end

local folder = sh.folder()
local PLACES = {
  { name = "memory", url = function() return "memory:" end },
  { name = "embedded", url = function() return "embedded:" .. folder.path .. "/store.db" end },
  { name = "embedded, relaxed", url = function() return "embedded:" .. folder.path .. "/relaxed.db?relaxed" end },
  { name = "Azurite", url = function() return require("spec.support.azurite").connection_string() end,
    apart = function(queue) return require("spec.support.azurite").apart(queue) end },
}

for _, place in ipairs(PLACES) do
  describe("on " .. place.name .. ":", function()
    lazy_teardown(function() folder:close() end)
    for _, case in ipairs(CASES) do
      local wanted = expected(case, place)
      if wanted then -- false: what the emulator says varies
        it(case[1], function()
          core.main(function()
            local store <close> = assert(core.open_store(place.url()))
            assert.same(wanted, run_case(store, case, place))
          end)
        end)
      end
    end
  end)
end
