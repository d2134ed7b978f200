-- Mistakes that policies could have, kept as data in spec/mutations/, and the specs that must find them out.
--
-- The first three of each policy are made in every run; SYNOD_MUTATIONS=all makes all of them, SYNOD_MUTATIONS=NAME
-- those of one policy.

local mutant = require "spec.support.mutant"

local FEW = 3
local wanted = os.getenv "SYNOD_MUTATIONS"
if wanted == "" then wanted = nil end

--- The lists whose mistakes are found out by running a spec; others have a runner of their own.
local function lists()
  local found = {}
  local pipe <close> = assert(io.popen("ls spec/mutations/*.lua"))
  for path in pipe:lines() do
    local name = path:match("([%w_]+)%.lua$")
    local list = dofile(path)
    if list[1].from and (not wanted or wanted == "all" or wanted == name) then
      found[#found + 1] = { name = name, mutations = list }
    end
  end
  return found
end

describe("a policy with a mistake", function()
  if os.getenv "SYNOD_ASAN" then
    pending("is found out without the sanitizers: the mistakes are in Lua", function() end)
    return
  end

  local folder
  setup(function() folder = mutant.copy() end)
  teardown(function() folder:close() end)

  for _, list in ipairs(lists()) do
    it(("%s: has at least %d known"):format(list.name, FEW), function() assert.is_true(#list.mutations >= FEW) end)
    local sound = {}
    for i = 1, wanted and #list.mutations or math.min(FEW, #list.mutations) do
      local m = list.mutations[i]
      it(("%s: %s"):format(list.name, m.why), function()
        local test = m.spec .. (m.only or "")
        if not sound[test] then
          local passed, output = mutant.run(folder, m.spec, m.only)
          assert.is_true(passed, "without the mistake: " .. output)
          sound[test] = true
        end
        local _ <close> = mutant.make(folder, m)
        assert.is_false((mutant.run(folder, m.spec, m.only)), "nobody found out: " .. m.from)
      end)
    end
  end
end)
