-- Leases: every state, every action, every use, on every store; the list of cases is spec/support/lease_cases.lua.

local cases = require "spec.support.lease_cases"
local core = require "synod.core"
local sh = require "spec.support.sh"
local steps = require "spec.support.lease_steps"

local RULES = "runtime/store/lease_rules.c"

local function text_of(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

local function add(list, more)
  table.move(more, 1, #more, #list + 1, list)
end

describe("the rules of leases", function()
  local rules
  lazy_setup(function() rules = steps.rules() end)
  lazy_teardown(function() rules:close() end)

  local function all_cases()
    local all = cases.of "rules"
    add(all, cases.bad_input)
    return all
  end

  local function faults(all, text)
    local answers = assert(rules:answers(all, text))
    local found = {}
    for i, case in ipairs(all) do add(found, steps.faults(case, answers[i])) end
    return found
  end

  it("answer every case", function()
    local all = all_cases()
    assert.is_true(#all > 250)
    assert.same({}, faults(all, text_of(RULES)))
  end)

  for _, mutation in ipairs(require "spec.mutations.lease_rules") do
    it("would be found out if " .. mutation.why, function()
      local text = text_of(RULES)
      local from, to = text:find(mutation.find, 1, true)
      assert(from, "the line is not there: " .. mutation.find)
      assert.is_nil(text:find(mutation.find, to + 1, true))
      assert.is_true(#faults(all_cases(), text:sub(1, from - 1) .. mutation.replace .. text:sub(to + 1)) > 0)
    end)
  end
end)

local DIFFERENCES = {} -- the rows of spec/azure/differences.lua that are for this file
for _, row in ipairs(require "spec.azure.differences") do
  if row.spec == "spec/store/lease_spec.lua" then DIFFERENCES[#DIFFERENCES + 1] = row end
end

--- The emulator's answers to a case where they are known to differ.
local function theirs(case, where, used)
  for i, row in ipairs(DIFFERENCES) do
    if row.case == case.name and (row.of or where) == where then
      used[i] = true
      assert.same(case.expected, row.ours)
      assert.are_not.same(row.ours, row.azurite)
      return { name = case.name, steps = case.steps, expected = row.azurite }
    end
  end
  return case
end

local SLACK_S = 0.2   -- of a wait in real time
local LATE_S = 0.5    -- that its calls may take in all, for an end to come between the same two steps
local TRIES = 10      -- on a machine that is too slow for that
local APART_S = 0.05  -- from the beginning of a case to the next one's

--- The answers to a case in real time, where the machine has not taken more time for it than the case leaves.
local function in_real_time(store, case, where, start)
  core.sleep(start)
  local ok, answers, late
  for try = 1, TRIES do
    ok, answers, late = pcall(steps.in_store, store, case, where, SLACK_S)
    if ok and late < LATE_S then break end
    core.sleep(try * math.random()) -- those that were too slow together are not together again
  end
  return assert(ok and answers, answers)
end

describe("a lease on Azurite", function()
  -- All of them at once: an end must be waited for in real time.
  it("answers every case as the service does, but for the known differences", function()
    local found, used = {}, {}
    core.main(function()
      local store <close> = assert(core.open_store(require("spec.support.azurite").connection_string()))
      local running = {}
      for _, where in ipairs { "blob", "container" } do
        for _, case in ipairs(cases.of(where, true)) do
          local start = #running * APART_S
          running[#running + 1] = { where, case, core.spawn(in_real_time, store, case, where, start) }
        end
      end
      for _, each in ipairs(running) do
        local where, case, task = table.unpack(each)
        add(found, steps.faults(theirs(case, where, used), task:join(), 1))
      end
    end)
    assert.same({}, found)
    for i, row in ipairs(DIFFERENCES) do assert(used[i], "no case is called " .. row.case) end
  end)
end)

for _, place in ipairs { "memory:", "embedded:" } do
  describe("a lease on " .. place, function()
    local folder
    lazy_setup(function() folder = sh.folder() end)
    lazy_teardown(function() folder:close() end)

    for _, where in ipairs { "blob", "container" } do
      for _, case in ipairs(cases.of(where)) do
        it(where .. ": " .. case.name, function()
          core.main(function()
            local url = place == "memory:" and place or place .. folder.path .. "/store.db?relaxed"
            local store <close> = assert(core.open_store(url))
            assert.same({}, steps.faults(case, (steps.in_store(store, case, where))))
          end, { clock = "virtual", seed = 1 })
        end)
      end
    end
  end)
end
