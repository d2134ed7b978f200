-- What a user can get wrong about the store, seen from the command line: a sentence that says what to do, and
-- the exit code.

local program = require "spec.support.program"

local KEY = "c2VjcmV0LWtleQ=="

local function account(endpoint, key)
  return ("AccountName=dev;AccountKey=%s;BlobEndpoint=%s/dev;"):format(key or KEY, endpoint)
end

local WRITE = [[
  local synod = require "synod"
  local c = synod.store:container "flags"
  assert(c:create { timeout = 0.5 })
  assert(c:blob("x"):put("hello"))
  print((assert(c:blob("x"):get())))
]]

local function run(url, options)
  options = options or {}
  options.files = options.files or {}
  options.files["script.lua"] = options.script or WRITE
  local args = { "run", "--store", url }
  table.move(options.args or {}, 1, #(options.args or {}), #args + 1, args)
  args[#args + 1] = "script.lua"
  return program.run(args, options)
end

local function assert_says(r, code, ...)
  assert.equal(code, r.code, r.err)
  for _, part in ipairs { ... } do
    assert.truthy(r.err:find(part, 1, true), ("%q is not in:\n%s"):format(part, r.err))
  end
  assert.is_nil(r.err:find(KEY, 1, true), "the account's key: " .. r.err)
  assert.is_nil(r.err:find("[%w_]+%.c:%d"), "a C source line: " .. r.err)
end

describe("a store's address", function()
  for url, part in pairs {
    ["nonsense"] = "none of embedded:PATH, memory:, azure, https://... or a connection string",
    ["embedded:"] = "write embedded:PATH",
    ["DefaultEndpointsProtocol=http;AccountName=dev"] = "it has no AccountKey",
    [account("http://127.0.0.1:9", "?")] = "AccountKey is not base64",
  } do
    it(("that is wrong is said to be: %s"):format(url:sub(1, 40)), function()
      assert_says(run(url), 2, "open the store", part)
    end)
  end

  it("of memory is refused for several instances", function()
    assert_says(run("memory:", { args = { "-n", "2" } }), 2, "for one instance", "embedded:PATH")
    assert.equal("hello\n", run("memory:").out)
  end)

  it("that nobody needs is not even looked at", function()
    local r = run("nonsense", { script = "print(1)" })
    assert.same({ code = 0, out = "1\n", err = "" }, r)
  end)
end)

describe("an account", function()
  it("that refuses connections exits with 3", function()
    assert_says(run(account("http://127.0.0.1:9")), 3, "create the container flags", "127.0.0.1:9", "check the address")
  end)

  it("whose host has no address exits with 3", function()
    assert_says(run(account("http://no-such-host.invalid")), 3, "no-such-host.invalid", "check the address")
  end)

  it("without credentials in the environment exits with 3", function()
    local r = run("azure", { env = { AZURE_STORAGE_CONNECTION_STRING = false } })
    assert_says(r, 3, "AZURE_STORAGE_CONNECTION_STRING")
  end)
end)

describe("a store's file", function()
  it("works where it can be made", function()
    assert.same({ code = 0, out = "hello\n", err = "" }, run("embedded:new.db", { before = "umask 077;" }))
  end)

  it("that is no database exits with 3 and stays as it is", function()
    local noise = ("not a database"):rep(2000)
    local r = run("embedded:noise.db", {
      files = { ["noise.db"] = noise }, script = WRITE,
      before = "umask 077; chmod 700 .; chmod 600 noise.db;",
    })
    assert_says(r, 3, "open the store", "noise.db", "restore it from a copy")
  end)

  it("in a folder that cannot be made exits with 3", function()
    assert_says(run("embedded:/proc/none/x.db"), 3, "open the store", "/proc/none")
  end)

  it("has names that the service forbids refused at the script's line", function()
    local r = run("memory:", { script = "\nprint(require('synod').store:container('Bad_Name'))" })
    assert_says(r, 1, "script.lua:2:", "'Bad_Name'")
  end)
end)
