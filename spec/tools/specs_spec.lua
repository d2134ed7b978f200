-- tools/specs runs several busteds at once and counts what they say; a small program plays busted here.

local sh = require "spec.support.sh"

--- What it prints and how it ends when each file's "busted" does what the file says.
local function run(files)
  local folder <close> = sh.folder()
  local names = {}
  for i, text in ipairs(files) do
    names[i] = ("%s/%d_spec.sh"):format(folder.path, i)
    local file <close> = assert(io.open(names[i], "w"))
    file:write(text, "\n")
  end
  local said, code = sh.run(("tools/specs 2 %s -- sh -e"):format(table.concat(names, " ")))
  return said:match("([^\n]*) : %d+ seconds\n$"), code, said
end

local GOOD = "echo '2 successes / 0 failures / 0 errors / 1 pending : 0.1 seconds'"

local BAD = "echo broken; echo '1 success / 2 failures / 1 error / 0 pending : 1'; exit 3"

describe("tools/specs", function()
  it("adds up what each busted counted", function()
    -- sh takes one file of the three that share a call: the others are its arguments
    local sum, code = run { GOOD, "", "", GOOD, "", "", GOOD }
    assert.equal("6 successes / 0 failures / 0 errors / 3 pending", sum)
    assert.equal(0, code)
  end)

  it("fails when one has failed", function()
    local sum, code, said = run { GOOD, "", "", BAD }
    assert.equal("3 successes / 2 failures / 1 errors / 1 pending", sum)
    assert.equal(1, code)
    assert.truthy(said:find("broken", 1, true))
  end)

  it("ends with what failed, a line each", function()
    local failing = "printf '%s\\n' '1 success / 1 failure / 0 errors / 0 pending : 1' '' "
      .. "'Failure -> spec/x_spec.lua @ 12' 'a thing holds' 'spec/x_spec.lua:14: Expected' '(number) 2'; exit 1"
    local _, code, said = run { failing, "", "", GOOD }
    assert.equal(1, code)
    local last = said:match("\nfailed: spec/x_spec.lua @ 12: a thing holds: spec/x_spec.lua:14: Expected\n(.*)$")
    assert.truthy(last)
    assert.truthy(last:match("^failed: busted ended with 1: %S+/1_spec.sh [^\n]*\n3 successes [^\n]*\n$"))
  end)

  it("counts a busted that crashed as an error", function()
    local sum, code, said = run { GOOD, "", "", "echo half; kill -SEGV $$" }
    assert.equal("2 successes / 0 failures / 1 errors / 1 pending", sum)
    assert.equal(1, code)
    assert.truthy(said:find("half", 1, true) and said:find("counted nothing", 1, true))
  end)

  it("fails when one ends badly after having counted no failure", function()
    local _, code = run { GOOD .. "; exit 86" }
    assert.equal(1, code)
  end)
end)
