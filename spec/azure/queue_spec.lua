-- Queues over HTTP: the official client as the other party, an account without a path, lost answers and answers that
-- are none.

local azurite = require "spec.support.azurite"
local cjson = require "cjson"
local core = require "synod.core"
local net = require "synod.net"

-- Without line ends: the official client leaves line feeds out when it sends, and reads "&#xD;" as these characters.
local TEXTS = { "plain", "ü€日本\u{1F600}", "<a b=\"c\">&amp;]]></a>", "\ttab ", " " }

local function open(fn, url, options)
  core.main(function()
    local store <close> = assert(core.open_store(url or azurite.lenient(), options))
    fn(store)
  end)
end

describe("the official client", function()
  it("reads what synod put, and synod what it sent", function()
    local name = azurite.fresh "crossing"
    open(function(store)
      local q = store:queue(name)
      assert(q:create())
      for _, text in ipairs(TEXTS) do assert(q:put(text)) end
    end)
    local seen = azurite.sdk_queues("peek", name)
    for i, line in ipairs(seen) do seen[i] = cjson.decode("[" .. line .. "]")[1] end
    assert.same(TEXTS, seen)
    local theirs = azurite.fresh "theirs"
    azurite.sdk_queues("send", theirs, cjson.encode(TEXTS))
    open(function(store)
      for i, msg in ipairs(assert(store:queue(theirs):get { n = 32 })) do
        assert.equal(TEXTS[i], msg.body)
        assert.same({ 604800, 30, 1 }, { msg.expires - msg.inserted, msg.next_visible - msg.inserted >= 30 and 30,
          msg.dequeue_count })
        assert.is_true(msg:delete())
      end
      assert.equal(0, store:queue(theirs):count())
    end)
  end)

  it("and synod, in base64, as its users do for bytes", function()
    local name = azurite.fresh "bytes"
    azurite.sdk_queues("send", name, '["AAEC/w=="]')
    open(function(store)
      local q = store:queue(name, { base64 = true })
      assert.equal("\0\1\2\255", q:get()[1].body)
      assert(q:put "\255\0")
    end)
    assert.same({ '"/wA="' }, azurite.sdk_queues("peek", name))
  end)

  it("does not get what synod holds, and its receipts and synod's are one another's", function()
    local name = azurite.fresh "held"
    azurite.sdk_queues("send", name, '["one"]')
    open(function(store)
      local msg = store:queue(name):get { visibility = 100 }[1]
      assert.same({ "null" }, azurite.sdk_queues("receive", name))
      local old = msg.receipt
      assert(msg:update { visibility = 0 })
      assert.same({ '["one",2]' }, azurite.sdk_queues("receive", name))
      assert.same({ 0, 1 }, { #store:queue(name):get(), store:queue(name):count() })
      assert.equal("PopReceiptMismatch", select(2, msg:delete()).code)
      assert.same({ "PopReceiptMismatch" }, azurite.sdk_queues("delete", name, msg.id, old))
    end)
  end)
end)

describe("an account at an address without a path, as every one in the cloud has", function()
  it("is signed for", function()
    local named = azurite.connection_string():gsub("http://127.0.0.1:(%d+)/" .. azurite.account,
      "http://" .. azurite.account .. ".localhost:%1")
    open(function(store)
      local q = store:queue(azurite.fresh "pathless")
      assert(q:create { metadata = { b = "2", a = "1" } })
      assert(q:put("x", { delay = 0, ttl = 60 }))
      local msg = q:get { n = 2, visibility = 30 }[1]
      assert(msg:update { visibility = 1, body = "y" })
      assert.is_true(msg:delete())
      assert.equal(0, q:count())
      local found
      for item in store:queues { prefix = "pathless", metadata = true } do found = item.metadata.a end
      assert.equal("1", found)
      assert.is_true(q:clear())
      assert.is_true(q:delete())
    end, named)
  end)
end)

describe("when the first answer is lost on the way", function()
  local function lost(operation, fn)
    local name = azurite.fresh "lost"
    open(function(store) assert(store:queue(name):create()) end, azurite.connection_string())
    open(function(store) fn(store:queue(name), store) end, azurite.connection_string(),
      { faults = { { kind = "error-after-apply", operation = operation } } })
  end

  it("a put may be there twice, and one that shall be made once is there once", function()
    lost("PutMessage", function(q)
      assert(q:put "x")
      assert.equal(2, q:count())
    end)
    lost("PutMessage", function(q)
      assert.equal("AnswerLost", select(2, q:put("x", { once = true })).code)
      assert.equal(1, q:count())
    end)
  end)

  it("what a get took stays hidden for its time, and the rest is got", function()
    lost("GetMessages", function(q)
      assert(q:put "a")
      assert(q:put "b")
      assert.equal("b", q:get { visibility = 100 }[1].body)
      assert.same({ 0, 2 }, { #q:get(), q:count() })
    end)
  end)

  it("a delete is done, an update in doubt", function()
    lost("DeleteMessage", function(q)
      assert(q:put "a")
      assert.is_true(q:get()[1]:delete())
      assert.equal(0, q:count())
    end)
    lost("UpdateMessage", function(q)
      assert(q:put "a")
      assert.equal("AnswerLost", select(2, q:get()[1]:update { visibility = 0 }).code)
    end)
  end)
end)

-- Answers as of a server: what is not exactly the service's form is refused, whatever is in it.
describe("a list of messages that is none", function()
  local GOOD = "<MessageId>1</MessageId><PopReceipt>a+/=</PopReceipt><MessageText>x</MessageText>"

  local function answer(body, put)
    local said
    core.main(function()
      local listener <close> = assert(net.listen("127.0.0.1:0", function(conn)
        repeat local line = conn:read "line" until not line or line == "" or line == "\r"
        conn:write(("HTTP/1.1 200 OK\r\nx-ms-request-id: 1\r\nContent-Length: %d\r\n\r\n%s"):format(#body, body))
        conn:close()
      end))
      local port = tonumber(tostring(listener.address):match "(%d+)$")
      local store <close> = assert(core.open_store(azurite.string_for(port)))
      local queue = store:queue "abc"
      local list, err
      if put then list, err = queue:put("x", { retries = 0 }) else list, err = queue:get { retries = 0 } end
      said = list or err.code
    end)
    return said
  end

  local function messages(inside) return "<QueueMessagesList>" .. inside .. "</QueueMessagesList>" end
  local function message(inside) return "<QueueMessage>" .. inside .. "</QueueMessage>" end

  it("is refused", function()
    local list = answer(messages(message(GOOD)))
    assert.same({ "1", "a+/=", "x" }, { list[1].id, list[1].receipt, list[1].body })
    assert.same({}, answer(messages ""))
    assert.same({}, answer "\u{FEFF}<?xml version=\"1.0\" encoding=\"utf-8\"?><QueueMessagesList />")
    for _, body in ipairs {
      "", "x", "<html/>", messages(message ""), messages(message(GOOD)):sub(1, -5), messages "<Other/>",
      messages(message(GOOD .. "<DequeueCount>-1</DequeueCount>")),
      messages(message(GOOD .. "<InsertionTime>yesterday</InsertionTime>")),
      messages(message(GOOD .. "<InsertionTime><a/></InsertionTime>")),
      messages(message(GOOD):rep(33)),
      messages(message(GOOD .. "<MessageText>" .. ("x"):rep(65537) .. "</MessageText>")),
      "<!DOCTYPE x [<!ENTITY a 'b'>]>" .. messages(message "<MessageId>&a;</MessageId>"),
    } do
      assert.equal("BadAnswer", answer(body), body:sub(1, 200))
    end
  end)

  it("is refused where it should tell the message that was put, and is empty", function()
    assert.equal("1", answer(messages(message(GOOD)), "put").id)
    assert.equal("BadAnswer", answer(messages "", "put"))
  end)
end)
