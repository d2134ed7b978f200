-- Each folder of examples/ is run as its README says.

local azurite = require "spec.support.azurite"
local sh = require "spec.support.sh"

local function run(command)
  local folder <close> = sh.folder()
  return sh.run(command, { dir = folder.path, env = { SYNOD_STORE = "embedded:" .. folder.path .. "/store.db" } })
end

local shown = {} -- examples that a test below runs

local function example(name, what, fn)
  shown[name] = true
  it(("%s: %s"):format(name, what), fn)
end

describe("the example", function()
  example("heat", "four instances compute in step what one computes alone", function()
    local output, code = run [[ $SYNOD run -n 4 examples/heat/heat.lua && $SYNOD store ls heat ]]
    assert.equal(0, code, output)
    assert.matches("heat_IN_0 | 32 cells, the same as one instance alone computes\n", output, 1, true)
    assert.is_nil(output:match("%S+/end/%d"), "nothing is left behind")
  end)

  example("degraded-start", "goes on with four of five, and the fifth is told", function()
    local output, code = run [[ $SYNOD run -n 5 examples/degraded-start/start.lua 2 ]]
    assert.equal(0, code, output)
    assert.matches("start_IN_0 | 4 of 5 are here; I take the shards 0 4 8\n", output, 1, true)
    assert.matches("start_IN_4 | 4 of 5 are here; I take the shards 3 7 11\n", output, 1, true)
    assert.matches("start_IN_3 | came late: the others went on without me\n", output, 1, true)
  end)

  example("classic-fleet", "meets a member that knows nothing of synod", function()
    local output, code = sh.run([[
      node examples/classic-fleet/member.js 2 3 & member=$!
      $SYNOD run -n 2 --store azure examples/classic-fleet/worker.lua 3; code=$?
      wait $member && exit $code
    ]], { env = { AZURE_STORAGE_CONNECTION_STRING = azurite.lenient(), SYNOD_STORE = "" } })
    assert.equal(0, code, output)
    assert.matches("worker_IN_0 | all 3 are ready\n", output, 1, true)
    assert.matches("worker_IN_1 | all 3 are ready\n", output, 1, true)
    assert.matches("member 2: all 3 are ready\n", output, 1, true)
  end)
end)

describe("examples/", function()
  it("has no folder that is not run here, and none without a README", function()
    local found <close> = assert(io.popen("ls -d examples/*/"))
    local count = 0
    for folder in found:lines() do
      local name = folder:match("([^/]+)/$")
      assert.is_true(shown[name], name .. " is run by no spec")
      assert(io.open(folder .. "README.md")):close()
      count = count + 1
    end
    assert.is_true(count >= 2)
  end)
end)
