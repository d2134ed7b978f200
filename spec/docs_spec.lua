-- The scripts in README.md and the guide run as they stand, and do what the text around them says.

local program = require "spec.support.program"
local sh = require "spec.support.sh"

--- The one script of a document that has this text in it.
local function block(path, part)
  local file = assert(io.open(path))
  local text = file:read("a")
  file:close()
  local found
  for each in text:gmatch("```lua\n(.-)```") do
    if each:find(part, 1, true) then
      assert.is_nil(found, "two scripts have it: " .. part)
      found = each
    end
  end
  return assert(found, part)
end

local function run(text, args)
  local words = table.move(args or {}, 1, #(args or {}), 2, { "run" })
  words[#words + 1] = "script.lua"
  return program.run(words, { files = { ["script.lua"] = text } })
end

local function count(text, part)
  local _, n = text:gsub(part, "")
  return n
end

describe("README.md", function()
  it("shows a policy that works for three instances", function()
    local r = run(block("README.md", "-- startup.lua"), { "-n", "3" })
    assert.equal(0, r.code, r.err)
    assert.equal(3, count(r.out, "all 3 are ready"))
    assert.truthy(r.out:find("ready, as number 2.*all 3 are ready"), r.out)
  end)
end)

describe("docs/guide.md", function()
  local GUIDE = "docs/guide.md"

  it("begins with one instance", function()
    local r = run(block(GUIDE, "-- hello.lua"))
    assert.equal(0, r.code, r.err)
    assert.truthy(r.out:find("^I am script@"), r.out)
  end)

  it("goes on with five that wait for each other", function()
    local r = run(block(GUIDE, "-- startup.lua"), { "-n", "5" })
    assert.equal(0, r.code, r.err)
    assert.equal(5, count(r.out, "all 5 are ready"))
  end)

  it("shows a start with fewer, which waits for all while it may", function()
    local r = run(block(GUIDE, "at_least = 4"), { "-n", "5" })
    assert.equal(0, r.code, r.err)
    assert.equal(5, count(r.out, "5 are here; missing: \n"))
  end)

  it("shows a hundred rounds in step", function()
    local r = run(block(GUIDE, "round = round"), { "-n", "3" })
    assert.equal(0, r.code, r.err)
  end)

  it("counts under a lock, and loses nothing", function()
    local folder <close> = sh.folder()
    -- on a busy machine two seconds may pass a holder by
    local text = block(GUIDE, "-- balance.lua"):gsub("ttl = 2 }", "ttl = 60 }"):gsub("timeout = 10 ", "timeout = 50 ")
    folder:write("balance.lua", text)
    local output, code = sh.run("$SYNOD run -n 4 $DIR/balance.lua && $SYNOD store get accounts/main", {
      dir = folder.path, env = { SYNOD_STORE = "embedded:" .. folder.path .. "/store.db" },
    })
    assert.same({ "4", 0 }, { output, code })
  end)

  it("ends on the virtual clock", function()
    local synod = require "synod"
    local started = os.time()
    assert(load(block(GUIDE, 'clock = "virtual"'), "=guide", "t", setmetatable({ synod = synod }, { __index = _G })))()
    assert.is_true(os.time() - started < 60)
  end)
end)
