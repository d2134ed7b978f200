-- An account's key is in nobody's reach: not in arguments, not in an environment, not in any output.

local program = require "spec.support.program"

local KEY = "c2VjcmV0LWtleS1vZi10aGUtc3BlYw=="
local URL = "AccountName=dev;AccountKey=" .. KEY .. ";BlobEndpoint=http://127.0.0.1:9/dev;"

-- What can be read about the process from outside, and from within by a command.
local SCRIPT = [[
  local function read(path)
    local file = assert(io.open(path, "rb"))
    local text = file:read("a")
    file:close()
    return (text:gsub("%z", " "))
  end
  print("arguments", read("/proc/self/cmdline"))
  print("environment", read("/proc/self/environ"))
  local result = require("synod").exec { "env" }
  print("a command sees", result.stdout)
  local inherited = "for f in /proc/self/fd/*; do [ ${f##*/} -gt 2 ] && timeout 1 cat $f; done 2>/dev/null"
  print("a command can read", require("synod").exec { "sh", "-c", inherited }.stdout)
]]

local function run(args, env)
  return program.run(args, { files = { ["script.lua"] = SCRIPT }, env = env })
end

local function assert_no_key(r)
  assert.equal(0, r.code, r.err)
  assert.truthy(r.out:find("arguments", 1, true))
  assert.is_nil(r.out:find(KEY, 1, true), r.out)
  assert.is_nil(r.err:find(KEY, 1, true), r.err)
end

describe("a connection string", function()
  it("given on the command line is overwritten there", function()
    assert_no_key(run { "run", "--store", URL, "script.lua" })
    local r = run { "run", "--store=" .. URL, "script.lua" }
    assert_no_key(r)
    assert.truthy(r.out:find("--store=***", 1, true), r.out)
  end)

  it("reaches supervised instances by neither arguments nor environment", function()
    assert_no_key(run { "run", "-n", "2", "--store", URL, "script.lua" })
  end)

  it("is as secret however its words are spelled", function()
    local lower = URL:gsub("AccountKey", "accountkey")
    assert_no_key(run { "run", "--store", lower, "script.lua" })
    assert_no_key(run { "run", "-n", "2", "--store", lower, "script.lua" })
    local r = run({ "script.lua" }, { SYNOD_STORE = lower })
    assert.equal(0, r.code, r.err)
    assert.is_nil(r.out:match("a command sees(.*)$"):find(KEY, 1, true), r.out)
  end)

  it("is not among what a script's arguments show either", function()
    local r = program.run({ "script.lua", "x", URL }, {
      files = { ["script.lua"] = "print(arg[2]) print(io.open('/proc/self/cmdline'):read('a'))" },
    })
    local _, count = r.out:gsub(KEY, "")
    assert.equal(1, count, "the script has its argument, the process list does not")
  end)

  it("in the environment is not seen by commands", function()
    local r = run({ "script.lua" }, { AZURE_STORAGE_CONNECTION_STRING = URL })
    local seen = r.out:match("a command sees(.*)$")
    assert.equal(0, r.code, r.err)
    assert.is_nil(seen:find("AZURE_", 1, true), seen)
  end)

  it("is seen by commands with --pass-credentials", function()
    local r = run({ "run", "--pass-credentials", "script.lua" }, { AZURE_STORAGE_CONNECTION_STRING = URL })
    assert.truthy(r.out:match("a command sees(.*)$"):find("AZURE_STORAGE_CONNECTION_STRING=" .. URL, 1, true), r.out)
  end)

  it("that is wrong is refused without its key", function()
    local r = run { "run", "--memory-limit", "x", "--store", URL, "script.lua" }
    assert.equal(2, r.code)
    assert.is_nil(r.err:find(KEY, 1, true), r.err)
  end)

  for _, args in ipairs {
    { "--store=" .. URL, "run", "script.lua" },
    { URL },
    { "run", URL },
    { "run", "-n", URL, "script.lua" },
    { "run", "--log-level", URL, "script.lua" },
    { "help", URL },
    { "store", URL },
    { "store", "ls", URL },
    { "store", "get", "abc/x", (URL:lower():gsub("accountkey=.*", "accountkey=" .. KEY)) },
  } do
    it("in the wrong place is refused without its key: " .. table.concat(args, " "):gsub("%w+;.*", "..."), function()
      local r = run(args)
      assert.equal(2, r.code)
      assert.is_nil(r.err:find(KEY, 1, true), r.err)
      assert.truthy(r.err:find("***", 1, true), r.err)
    end)
  end

  it("in an error of the script is shown without its key", function()
    local r = program.run({ "script.lua" }, { files = { ["script.lua"] = ("error('cannot use %s')"):format(URL) } })
    assert.equal(1, r.code)
    assert.truthy(r.err:find("cannot use AccountName=dev;AccountKey=***;BlobEndpoint", 1, true), r.err)
  end)
end)
