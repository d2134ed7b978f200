-- libcurl, libcrypto and libxml2: loaded when something needs them, and missed with a sentence that helps.

local azurite = require "spec.support.azurite"
local sh = require "spec.support.sh"

local SCRIPT = [[
local synod = require "synod"
local c = synod.store:container "libraries"
local ok, err = c:create()
if ok then ok, err = pcall(function() for _ in c:list() do end end) end
print(ok and "fine" or err.code, ok and "" or err.message)
]]

local MAPS = [[
local synod = require "synod"
synod.store:container("abc"):create()
local maps <close> = io.open("/proc/self/maps")
for name in maps:read("a"):gmatch("/(lib[%w]+)%.so") do
  if name == "libcurl" or name == "libcrypto" or name == "libxml2" then print(name) end
end
print "looked"
]]

describe("a library", function()
  local folder

  setup(function()
    folder = sh.folder()
    folder:write("use.lua", SCRIPT)
    folder:write("maps.lua", MAPS)
  end)
  teardown(function() folder:close() end)

  --- Runs the script where another file stands for the library.
  local function with(make)
    return sh.run([[mkdir -p "$DIR/lib" && rm -f "$DIR"/lib/* && ]] .. make
      .. [[ && LD_LIBRARY_PATH="$DIR/lib" $SYNOD run --store azure "$DIR/use.lua"]],
      { dir = folder.path, env = { AZURE_STORAGE_CONNECTION_STRING = azurite.connection_string() } })
  end

  local LIBRARIES = { { "libcurl.so.4", "libcurl4" }, { "libcrypto.so.3", "libssl3" }, { "libxml2.so.2", "libxml2" } }

  for _, library in ipairs(LIBRARIES) do
    local name, package_name = table.unpack(library)
    it("that cannot be loaded is named, with its package: " .. name, function()
      local output = with([[: >"$DIR/lib/]] .. name .. '"')
      local said = "the library %s cannot be loaded; install it (on Debian and Ubuntu: apt-get install %s)"
      assert.truthy(output:find(said:format(name, package_name), 1, true), output)
    end)
  end

  it("that is too old is named, with what it lacks", function()
    local output = with([[echo | cc -shared -fPIC -x c -o "$DIR/lib/libxml2.so.2" -]])
    local said = "the library libxml2.so.2 here is too old (it has no xmlFreeTextReader)"
    assert.truthy(output:find(said, 1, true), output)
  end)

  it("is not loaded for a script that stays on this machine", function()
    for _, store in ipairs { "memory:", "embedded:" .. folder.path .. "/store.db" } do
      assert.equal("looked\n", (sh.run("$SYNOD run --store " .. store .. ' "$DIR/maps.lua"', { dir = folder.path })))
    end
  end)

  it("is loaded for one that asks the cloud: the look itself works", function()
    local output = sh.run('$SYNOD run --store azure "$DIR/maps.lua"',
      { dir = folder.path, env = { AZURE_STORAGE_CONNECTION_STRING = azurite.connection_string() } })
    assert.truthy(output:find("libcurl", 1, true), output)
    assert.truthy(output:find("libcrypto", 1, true), output)
    assert.falsy(output:find("libxml2", 1, true), output) -- nothing was listed
  end)
end)
