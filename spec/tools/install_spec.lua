-- make install: what it puts where works from there, without the tree.

local program = require "spec.support.program"

local function output(command)
  local pipe = io.popen(command .. " 2>&1")
  local text = pipe:read("a")
  local ok = pipe:close()
  return text, ok == true
end

describe("make install", function()
  it("installs the program, and the module for a plain lua5.4", function()
    local folder <close> = program.folder()
    local said, ok = output(("make install DESTDIR='%s' PREFIX=/usr"):format(folder.path))
    assert.is_true(ok, said)
    local usr = folder.path .. "/usr"
    assert.matches("^synod %d", (output(("cd / && '%s/bin/synod' version"):format(usr))))
    local lua = ("cd / && LUA_PATH='%s/share/lua/5.4/?.lua;%s/share/lua/5.4/?/init.lua' "
      .. "LUA_CPATH='%s/lib/lua/5.4/?.so' lua5.4 -e %q")
      :format(usr, usr, usr, "local s = require 'synod' s.main(function() s.sleep(0) print(s.now() > 0) end)")
    assert.equal("true\n", (output(lua)))
  end)
end)
