-- tools/fuzz: what it makes of fuzzers that find something, find nothing, or do not run. Shell scripts stand for them.

local sh = require "spec.support.sh"

local CALM = "#!/bin/sh\necho 'stat::number_of_executed_units: 1234' >&2\n"
local FINDS = "#!/bin/sh\necho 'ERROR: overflow' >&2\necho 'stat::number_of_executed_units: 7' >&2\nexit 77\n"
local IDLE = "#!/bin/sh\n"

--- Runs tools/fuzz over these programs, in a copy of the tree that has only the script.
local function run(programs, names)
  local folder <close> = sh.folder()
  os.execute(("mkdir -p %s/tools %s/bin && cp tools/fuzz %s/tools/"):format(folder.path, folder.path, folder.path))
  for name, text in pairs(programs) do os.execute("chmod +x " .. folder:write("bin/" .. name, text)) end
  return sh.run(("$DIR/tools/fuzz $DIR/bin 1 %s"):format(names), { dir = folder.path })
end

describe("tools/fuzz", function()
  it("counts the inputs of those that find nothing", function()
    local output, code = run({ a = CALM, b = CALM, c = CALM }, "a b c")
    assert.equal(0, code)
    local _, lines = output:gsub("%l +1234 inputs in 1 s, nothing found\n", "")
    assert.equal(3, lines)
  end)

  it("fails and shows what one has found, and goes on with the others", function()
    local output, code = run({ a = FINDS, b = CALM, c = CALM }, "a b c")
    assert.equal(1, code)
    assert.matches("ERROR: overflow\n", output, 1, true)
    assert.matches("\na +found something: see ", output)
    assert.matches("\nc +1234 inputs", output)
  end)

  it("fails for one that tried nothing, or is not there", function()
    for _, name in ipairs { "idle", "absent" } do
      local output, code = run({ idle = IDLE }, name)
      assert.equal(1, code)
      assert.is_nil(output:find("nothing found", 1, true))
    end
  end)
end)
