local program = require "spec.support.program"

describe("synod help", function()
  it("lists every command with its summary", function()
    local r = program.run { "help" }
    assert.equal(0, r.code, r.err)
    for _, name in ipairs { "run", "help", "version" } do
      assert.truthy(r.out:find("\n  " .. name .. " +%a"), name)
    end
    assert.equal(r.out, program.run({ "--help" }).out)
  end)

  it("is printed, as a wrong use, when nothing is asked", function()
    local r = program.run {}
    assert.equal(2, r.code)
    assert.equal("", r.out)
    assert.equal(program.run({ "help" }).out, r.err)
  end)

  it("explains a command by its declared options", function()
    local r = program.run { "help", "run" }
    assert.equal(0, r.code, r.err)
    for _, text in ipairs { "--store URL", "SYNOD_STORE", "-n N", "--memory-limit SIZE", "default: " } do
      assert.truthy(r.out:find(text, 1, true), text)
    end
    assert.equal(r.out, program.run({ "run", "--help" }).out)
    assert.equal(r.out, program.run({ "run", "-h", "x.lua" }).out)
  end)

  it("fits into 90 columns", function()
    local all = { { "help" } }
    for name in program.run({ "help" }).out:match("commands:(\n.-)\n\n"):gmatch("\n  (%l+) +%l") do
      all[#all + 1] = { "help", name }
    end
    assert.equal(10, #all)
    for _, args in ipairs(all) do
      for line in program.run(args).out:gmatch("[^\n]+") do
        assert.is_true(#line <= 90, line)
      end
    end
  end)
end)

describe("synod version", function()
  it("names the program and the libraries it runs on", function()
    local r = program.run { "version" }
    assert.equal(0, r.code, r.err)
    assert.truthy(r.out:find("^synod %d+%.%d+%.%d+\n"))
    for _, name in ipairs { "Lua", "libuv", "SQLite", "libcurl", "OpenSSL", "libxml2", "jansson" } do
      assert.truthy(r.out:find("\n  " .. name .. " +%d+%.%d+%.?%d*\n"), name .. " in " .. r.out)
    end
    assert.equal(r.out, program.run({ "--version" }).out)
  end)
end)
