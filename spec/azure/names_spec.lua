-- A name server that hangs: nothing else stands still, and every call ends at its deadline.

local sh = require "spec.support.sh"

local SCRIPT = [[
local synod = require "synod"
local ticks = 0
synod.every(0.01, function() ticks = ticks + 1 end):detach()
local start = synod.now()
local status, err = synod.http { url = "http://name.example/", timeout = 0.5 }
local took = synod.now() - start
print(status, err.code, err.message, err.retryable)
print("in time", took >= 0.5 and took < 1.5)
print("others ran", ticks >= 20)
-- Given up in every other way, too: by a cancel, and by the end of the run.
local task = synod.spawn(function() return synod.http { url = "http://name.example/" } end)
synod.sleep(0.05)
task:cancel("enough")
print(select(2, task:join(1)).code)
synod.spawn(function() return synod.http { url = "http://name.example/" } end):detach()
synod.sleep(0.05)
print("ends", synod.now() - start < 3)
]]

local STORE_SCRIPT = [[
local synod = require "synod"
assert(synod.store:container("abc"):create { timeout = 0.5 })
]]

describe("a name server that hangs for 30 s", function()
  local folder, library

  setup(function()
    folder = sh.folder()
    library = folder.path .. "/slow_names.so"
    local said, code = sh.run(("cc -shared -fPIC -o %s spec/support/slow_names.c"):format(sh.quote(library)))
    assert.equal(0, code, said)
    folder:write("names.lua", SCRIPT)
    folder:write("store.lua", STORE_SCRIPT)
  end)
  teardown(function() folder:close() end)

  local function preloaded(script)
    -- Only the program itself is preloaded. The sanitizer, when there is one, need not come first for this.
    local env = "http_proxy= https_proxy= all_proxy= ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0 "
      .. "LD_PRELOAD=" .. sh.quote(library)
    return sh.run((script:gsub("@", env)), { dir = folder.path, timeout = 20 })
  end

  it("ends no request late, and holds up no task and no exit", function()
    local start = os.time()
    local output, code = preloaded [[@ $SYNOD run "$DIR/names.lua"]]
    assert.equal(table.concat({
      "nil\tUnreachable\tthe name in name.example could not be resolved in time: the name server does not answer\ttrue",
      "in time\ttrue",
      "others ran\ttrue",
      "Cancelled",
      "ends\ttrue", "" }, "\n"), output)
    assert.equal(0, code)
    assert.is_true(os.time() - start < 8)
  end)

  it("ends a call to the store in time, with exit code 3 and the reason", function()
    local output, code = preloaded [[AZURE_STORAGE_CONNECTION_STRING="AccountName=name;AccountKey=YWJj" \
      @ $SYNOD run --store azure "$DIR/store.lua"]]
    assert.truthy(output:find("name.blob.core.windows.net", 1, true), output)
    assert.truthy(output:find("could not be resolved in time: the name server does not answer", 1, true), output)
    assert.equal(3, code)
  end)
end)
