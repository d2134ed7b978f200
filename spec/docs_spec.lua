-- The scripts in README.md and the guide run as they stand, and do what the text around them says.

local program = require "spec.support.program"

local function blocks(path)
  local file = assert(io.open(path))
  local text = file:read("a")
  file:close()
  local found = {}
  for block in text:gmatch("```lua\n(.-)```") do found[#found + 1] = block end
  return found
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
    local r = run(blocks("README.md")[1], { "-n", "3" })
    assert.equal(0, r.code, r.err)
    assert.equal(3, count(r.out, "all 3 are ready"))
    assert.truthy(r.out:find("ready, as number 2.*all 3 are ready"), r.out)
  end)
end)

describe("docs/guide.md", function()
  local scripts = blocks("docs/guide.md")

  it("begins with one instance", function()
    local r = run(scripts[1])
    assert.equal(0, r.code, r.err)
    assert.truthy(r.out:find("^I am script@"), r.out)
  end)

  it("goes on with five that wait for each other", function()
    local r = run(scripts[2], { "-n", "5" })
    assert.equal(0, r.code, r.err)
    assert.equal(5, count(r.out, "all 5 are ready"))
  end)

  it("ends on the virtual clock", function()
    local synod = require "synod"
    local started = os.time()
    assert(load(scripts[3], "=guide", "t", setmetatable({ synod = synod }, { __index = _G })))()
    assert.is_true(os.time() - started < 60)
  end)
end)
