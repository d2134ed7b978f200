-- What scripts may do with Lua's own libraries, seen from inside the program.

local program = require "spec.support.program"

local function output(text, files)
  files = files or {}
  files["script.lua"] = text
  local r = program.run({ "script.lua" }, { files = files })
  return r.out .. r.err
end

describe("debug", function()
  it("keeps traceback and getinfo, and nothing else", function()
    assert.equal("getinfo traceback\n", output [[
      local names = {}
      for name in pairs(require "debug") do names[#names + 1] = name end
      table.sort(names)
      print(table.concat(names, " "))
    ]])
  end)
end)

describe("load", function()
  it("takes text, with its environment and its name", function()
    assert.equal("3\tnil\n", output [[
      local seen = {}
      load("x = 3", "name", "t", seen)()
      print(seen.x, x)
    ]])
    assert.equal("5\n", output [[ y = 5 print(load("return y")()) ]])
    assert.equal("9\n", output [[
      local pieces = { "return ", "9" }
      print(load(function() return table.remove(pieces, 1) end)())
    ]])
  end)

  it("refuses bytecode", function()
    local said = output [[ print(load(string.dump(function() end))) ]]
    assert.truthy(said:find("^nil\t.*attempt to load a binary chunk"), said)
    said = output [[ print(pcall(load, "return 1", "x", "b")) ]]
    assert.truthy(said:find("only Lua text can be loaded", 1, true), said)
  end)

  it("of files refuses bytecode too", function()
    local files = { ["other.lua"] = string.dump(function() end) }
    local said = output([[ print(loadfile("other.lua")) print(pcall(dofile, "other.lua")) ]], files)
    local _, count = said:gsub("attempt to load a binary chunk", "")
    assert.equal(2, count, said)
  end)
end)

describe("dofile", function()
  it("runs a file that may wait, and gives its results", function()
    local files = { ["other.lua"] = "require('synod').sleep(0.01) return 1, 2" }
    assert.equal("1\t2\n", output([[ print(dofile("other.lua")) ]], files))
  end)
end)

describe("require", function()
  it("loads a module that waits, once, also when two tasks ask at once", function()
    local files = {
      ["slow.lua"] = [[
        local synod = require "synod"
        print("loading")
        synod.sleep(0.02)
        return { value = 7 }
      ]],
    }
    assert.equal("loading\ntrue\t7\n", output([[
      local synod = require "synod"
      local a = synod.spawn(require, "slow")
      local b = synod.spawn(require, "slow")
      local x, y = a:join(), b:join()
      print(x == y, x.value)
    ]], files))
  end)

  it("refuses a module that requires itself through another", function()
    local said = output([[ require "a" ]], { ["a.lua"] = "require 'b'", ["b.lua"] = "require 'a'" })
    assert.truthy(said:find("b.lua:1: module 'a' requires itself while it is being loaded", 1, true), said)
  end)

  it("refuses a cycle across two tasks, instead of waiting for ever", function()
    local files = {
      ["a.lua"] = "require('synod').sleep(0.02) return require 'b'",
      ["b.lua"] = "require('synod').sleep(0.02) return require 'a'",
    }
    local said = output([[
      local synod = require "synod"
      local a, b = synod.spawn(require, "a"), synod.spawn(require, "b")
      print(select(2, a:join()))
      print(select(2, b:join()))
    ]], files)
    assert.truthy(said:find("requires itself while it is being loaded (a -> b)", 1, true), said)
  end)

  it("lets another task try again when a load fails", function()
    local files = { ["odd.lua"] = "require('synod').sleep(0.01) tries = (tries or 0) + 1 "
      .. "if tries == 1 then error('first') end return tries" }
    assert.equal("nil\t2\n", output([[
      local synod = require "synod"
      local a, b = synod.spawn(require, "odd"), synod.spawn(require, "odd")
      print(a:join(), (b:join()))
    ]], files))
  end)

  it("names every place where a missing module was looked for", function()
    local said = output [[ require "no.such" ]]
    assert.truthy(said:find("script.lua:1: module 'no.such' not found", 1, true), said)
    assert.truthy(said:find("no built-in module 'no.such'", 1, true), said)
  end)
end)

describe("SYNOD_LUA_DIR", function()
  it("runs the library from a folder", function()
    local r = program.run({ "run", "x.lua" }, {
      env = { SYNOD_LUA_DIR = "lua" },
      files = { ["lua/cli.lua"] = "return function(args) print('from the tree', args[2]) return 9 end" },
    })
    assert.same({ code = 9, out = "from the tree\tx.lua\n", err = "" }, r)
  end)
end)
