-- What the world may answer instead of what was asked: each gets a clear err, and none shows the key.

local azurite = require "spec.support.azurite"
local core = require "synod.core"
local servers = require "spec.support.server"

local server

local function run(fn)
  return function()
    core.main(function()
      local store <close> = assert(core.open_store(azurite.string_for(server.port)))
      fn(store)
    end)
  end
end

--- The err of reading a blob of that name, tried once.
local function read(store, word, options)
  options = options or {}
  options.retries = options.retries or 0
  local body, err = store:container("abc"):blob(word):get(options)
  assert.is_nil(body)
  assert.is_nil(tostring(err):find(azurite.key, 1, true))
  return err
end

--- The err of listing a container of that name.
local function list(store, word)
  local ok, err = pcall(function()
    for _ in store:container(word):list { retries = 0 } do end
  end)
  assert.is_false(ok)
  return err
end

local function has(text, whole)
  assert.truthy(tostring(whole):find(text, 1, true), ("%q is not in %q"):format(text, tostring(whole)))
end

describe("a server that is no storage service", function()
  setup(function() server = servers.start("spec/support/odd_server.js") end)
  teardown(function() server:stop() end)

  it("answers in HTML, as a proxy or a hotel's network does", run(function(store)
    local err = read(store, "html")
    assert.equal("BadAnswer", err.code)
    has("127.0.0.1:" .. server.port .. " answered with status 200, text/html, but is no storage service (it is nginx)",
      err.message)
    has("check that the address is that of a storage service", err)
    local gateway = read(store, "gateway")
    assert.equal("BadAnswer", gateway.code)
    assert.equal(502, gateway.status)
  end))

  it("wants credentials, being a proxy", run(function(store)
    local err = read(store, "proxy-login")
    assert.equal("Unreachable", err.code)
    has("a proxy on the way", err.message)
    assert.is_false(err.retryable)
  end))

  it("redirects", run(function(store)
    local err = read(store, "redirect")
    assert.equal("BadAnswer", err.code)
    has("redirects to another address", err.message)
    assert.is_nil(tostring(err):find("secret", 1, true))
  end))

  it("breaks the connection, at whatever point", run(function(store)
    for _, word in ipairs { "reset", "close", "half", "half-head" } do
      assert.equal("Unreachable", read(store, word).code)
    end
    assert.equal("BadAnswer", read(store, "smtp").code)
    assert.equal("AnswerTooLarge", read(store, "many-headers").code)
  end))

  it("does not answer in time", run(function(store)
    local start = core.now()
    local err = read(store, "slow", { timeout = 0.2 })
    assert.equal("Timeout", err.code)
    assert.is_true(core.now() - start < 1)
    assert.equal("Timeout", read(store, "drip", { timeout = 0.2 }).code)
  end))

  it("sends properties that mean nothing", run(function(store)
    has("a header of the answer is malformed", read(store, "bad-length"))
    has("a header of the answer is malformed", read(store, "first-year"))
    has("a header of the answer is malformed", read(store, "much-metadata")) -- more than the service keeps
  end))
end)

describe("a list", function()
  setup(function() server = servers.start("spec/support/odd_server.js") end)
  teardown(function() server:stop() end)

  it("is read when it is in order", run(function(store)
    for item in store:container("fine-list"):list() do assert.equal('"0x1"', item.etag) end
  end))

  it("may hold names that XML cannot, encoded", run(function(store)
    for item in store:container("encoded-list"):list() do assert.equal("a\vb%%7", item.name) end
  end))

  it("that is cut short, empty, of another kind or no XML at all is no list", run(function(store)
    for _, word in ipairs { "cut-xml", "no-xml", "other-xml", "empty-list", "nameless" } do
      local err = list(store, word)
      assert.equal("BadAnswer", err.code, word)
      has("the list is", err.message)
    end
  end))

  it("that defines entities or nests without end is refused", run(function(store)
    assert.equal("BadAnswer", list(store, "bomb").code)
    assert.equal("BadAnswer", list(store, "deep").code)
  end))
end)

describe("the service", function()
  setup(function() server = servers.start("spec/support/odd_server.js") end)
  teardown(function() server:stop() end)

  it("is busy, and says for how long", run(function(store)
    local err = read(store, "busy")
    assert.equal("ServerBusy", err.code)
    assert.is_true(err.retryable)
    assert.is_true(read(store, "many").retryable)
    local start = core.now()
    read(store, "busy", { retries = 3, timeout = 2 }) -- the 7 s it asks for do not fit
    assert.is_true(core.now() - start < 1)
  end))

  it("is given the time it asks for, in seconds or until a date", function()
    core.main(function() -- the clock stands still while the server is asked, and then jumps
      local store <close> = assert(core.open_store(azurite.string_for(server.port)))
      for _, word in ipairs { "wait-seconds", "wait-date" } do
        local start = core.now()
        assert.equal("hello", (store:container("abc"):blob(word):get()))
        assert.equal(3, math.floor(core.now() - start))
      end
    end, { clock = "virtual" })
  end)

  it("has another time than we", run(function(store)
    local err = read(store, "wrong-clock")
    assert.equal("AuthenticationFailed", err.code)
    has("this machine's clock is 47 minutes ahead of the store's", err.message)
    has("check the credentials and this machine's clock", err)
  end))

  it("uses a word that synod does not know", run(function(store)
    local err = read(store, "new-code")
    assert.equal("SomethingNew", err.code)
    assert.equal(409, err.status)
    assert.equal("11111111-2222-3333-4444-555555555555", err.request_id)
  end))

  it("says its word in the body only", run(function(store)
    assert.equal("ContainerBeingDeleted", read(store, "body-code").code)
  end))

  it("says which value it does not take", run(function(store)
    local err = read(store, "bad-value")
    assert.equal("InvalidHeaderValue", err.code)
    assert.equal("The value is wrong. (HeaderName x-ms-foo, HeaderValue 7)", err.message)
  end))
end)

describe("an account", function()
  it("with another key is refused, and neither key is shown", function()
    core.main(function()
      local wrong = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"
      local store <close> = assert(core.open_store(azurite.connection_string(wrong)))
      local ok, err = store:container("abc"):create()
      assert.is_nil(ok)
      assert.equal("Unauthorized", err.code)
      assert.equal(403, err.status)
      has("check the account's name and the credentials", err)
      assert.is_nil(tostring(err):find(wrong, 1, true))
    end)
  end)

  it("that nobody serves is named", function()
    core.main(function()
      local store <close> = assert(core.open_store(azurite.string_for(1)))
      local ok, err = store:container("abc"):create { timeout = 0.3 }
      assert.is_nil(ok)
      assert.equal("Unreachable", err.code)
      has("127.0.0.1:1 refuses connections", err)
    end)
  end)
end)

describe("a connection string", function()
  local KEY = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"

  local function refused(text, why)
    core.main(function()
      local store, err = core.open_store(text)
      assert.is_nil(store, text)
      has(why, err.message)
      assert.is_nil(tostring(err):find(KEY, 1, true), tostring(err))
    end)
  end

  it("that is malformed is refused by the name or the place of the part", function()
    local good = "AccountName=me;AccountKey=" .. KEY
    refused("AccountName=me", "it has no AccountKey")
    refused("AccountName=me;AccountKey=", "AccountKey is empty")
    refused("AccountName=me;AccountKey=" .. KEY .. "!", "AccountKey is not base64 text")
    refused("AccountName=me;AccountKey=" .. KEY:sub(2), "AccountKey is not base64 text")
    refused("AccountName=;AccountKey=" .. KEY, "AccountName is empty")
    refused("AccountName=Me Too;AccountKey=" .. KEY, "AccountName may hold only small letters and digits")
    refused("AccountKey=" .. KEY, "it has neither AccountName nor UseDevelopmentStorage")
    refused(good .. ";" .. KEY, "its part number 3 has no \"=\"")
    refused(good .. ";" .. KEY .. "=x", "the name of its part number 3 is unknown")
    refused(good .. ";AccountKey=" .. KEY, "AccountKey is given twice")
    refused("DefaultEndpointsProtocol=ftp;" .. good, "DefaultEndpointsProtocol can only be http or https")
    refused(good .. ";BlobEndpoint=" .. KEY, "BlobEndpoint is not an address that begins with http:// or https://")
    refused(good .. ";BlobEndpoint=http:///x", "BlobEndpoint is not an address")
    refused(good .. ";EndpointSuffix=a b", "EndpointSuffix is not an address")
    refused("UseDevelopmentStorage=yes", "UseDevelopmentStorage can only be true")
    refused("UseDevelopmentStorage=true;" .. good, "cannot stand beside UseDevelopmentStorage")
    refused("DefaultEndpointsProtocol=https;SharedAccessSignature=sv=1&sig=" .. KEY,
      "it has neither AccountName nor UseDevelopmentStorage")
    refused(good .. ";EndpointSuffix=" .. ("x"):rep(9000), "it is too long")
  end)

  it("may name its parts in any order and case, with blanks around them", function()
    core.main(function()
      local text = " accountkey = " .. azurite.key .. " ; BLOBENDPOINT=http://127.0.0.1:%d/%s/ ;AccountName=%s;;"
      local store <close> = assert(core.open_store(text:format(azurite.port(), azurite.account, azurite.account)))
      assert(store:container(azurite.fresh("parts")):create())
    end)
  end)

  it("for the emulator may name its host", function()
    core.main(function() -- where only 127.0.0.1 would answer
      local text = "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=http://127.0.0.2:8888/"
      local store <close> = assert(core.open_store(text))
      local _, err = store:container("abc"):create { timeout = 0.3 }
      has("127.0.0.2:10000 refuses connections", err)
    end)
  end)
end)
