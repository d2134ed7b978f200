-- synod run --usage, as a real process: what is told, to whom, and that nothing of it is on standard output.

local json = require "cjson"
local program = require "spec.support.program"

local SCRIPT = [[
  local c = require("synod").store:container "flags"
  c:create()
  for _ = 1, 3 do c:blob("a"):put("x", { if_none_match = "*" }) end
  c:blob("a"):get()
  print("out")
  if ... == "term" then os.execute("kill -TERM $PPID") require("synod").sleep(5) end
  if ... == "fail" then error("broken") elseif ... == "exit" then os.exit(7) elseif ... == "kill" then
    require("synod").sleep(0.5)
    if require("synod").instance.ordinal == 1 then os.execute("kill -9 $PPID") end
    require("synod").sleep(0.2)
  end
]]

local function run(args, files, env)
  files = files or {}
  files["x.lua"] = SCRIPT
  return program.run(table.move(args, 1, #args, 2, { "run" }), { files = files, env = env })
end

describe("synod run --usage", function()
  it("tells a person what was asked, by operation and outcome", function()
    local r = run { "--usage", "--store", "memory:", "x.lua" }
    assert.same({ 0, "out\n" }, { r.code, r.out })
    assert.matches("^synod: requests to memory in %d+%.%d%d s\n", r.err)
    assert.matches("\nOPERATION +CLASS +TOTAL +DONE +REFUSED +A MONTH +COST\n", r.err)
    assert.matches("\nPutBlob +write +3 +1 +2 +[%d,]+ +%d+%.%d%d\n", r.err)
    assert.matches("\nall +5 ", r.err)
    assert.matches("An estimate for 30 days at this rate, from a run too short to say much.\n", r.err, 1, true)
    assert.matches("\nCost in USD by prices of %d%d%d%d%-%d%d, an example: ", r.err)
  end)

  it("is silent unless it is asked for", function()
    assert.equal("", run({ "--store", "memory:", "x.lua" }).err)
  end)

  it("tells however the script ends", function()
    for word, code in pairs { fail = 1, exit = 7, term = 143 } do
      local r = run { "--usage", "--store", "memory:", "x.lua", word }
      assert.equal(code, r.code)
      assert.matches("\nPutBlob +write +3 ", r.err)
    end
  end)

  it("tells a program, with what a month would cost", function()
    local r = run { "--usage", "--log-format", "json", "--store", "memory:", "x.lua" }
    local line = json.decode(r.err)
    assert.same({ "usage", "info" }, { line.message, line.level })
    assert.matches("^%d+%-%d+%-%d+T%d+:%d+:%d+%.%d%d%dZ$", line.time) -- as every log line has it
    local put = line.fields.stores.memory.PutBlob
    assert.same({ done = 1, refused = 2 }, put.outcomes)
    assert.equal("write", put.class)
    local month = 30 * 24 * 3600 / line.fields.seconds * 3
    assert.is_true(math.abs(put.monthly / month - 1) < 1e-9)
    assert.is_true(math.abs(put.cost / (month / 10000 * 0.05) - 1) < 1e-9)
  end)

  it("takes other prices", function()
    local file = [[return { date = "2031-01", region = "here", currency = "EUR", per_10000 = { write = 7 } }]]
    local r = run({ "--usage", "--prices", "p.lua", "--log-format", "json", "--store", "memory:", "x.lua" },
      { ["p.lua"] = file })
    local fields = json.decode(r.err).fields
    assert.same({ date = "2031-01", region = "here", currency = "EUR" }, fields.prices)
    local put = fields.stores.memory.PutBlob
    assert.is_true(math.abs(put.cost / (put.monthly / 10000 * 7) - 1) < 1e-9)
  end)

  local REFUSED = {
    { "return 1", "p.lua must return a table" },
    { "return {}", "p.lua: it must have a table per_10000" },
    { "return { per_10000 = { writes = 1 } }", "p.lua: per_10000 has no class 'writes'" },
    { "return { per_10000 = { write = -1 } }", "p.lua: the price of 'write' must be a number from 0" },
    { "return { per_10000 = {}, place = 1 }", "p.lua: unknown field 'place'" },
    { "return { per_10000 = {}, date = 1 }", "p.lua: 'date' must be a text" },
    { "x()", "p.lua:1: attempt to call a nil value" },
    { "return", "p.lua must return a table" },
    { "local = 1", "p.lua:1: <name> expected" },
  }
  for _, case in ipairs(REFUSED) do
    it("refuses prices before it runs anything: " .. case[1], function()
      local r = run({ "--usage", "--prices", "p.lua", "--store", "memory:", "x.lua" }, { ["p.lua"] = case[1] })
      assert.same({ 2, "" }, { r.code, r.out })
      assert.matches(case[2], r.err, 1, true)
    end)
  end

  it("refuses prices that nobody asked for", function()
    local r = run({ "--prices", "p.lua", "x.lua" }, { ["p.lua"] = "return { per_10000 = {} }" })
    assert.equal(2, r.code)
    assert.matches("--prices is for --usage", r.err, 1, true)
  end)

  it("adds up the instances of -n, once", function()
    local r = run { "-n", "3", "--usage", "--log-format", "json", "x.lua" }
    assert.equal(0, r.code, r.err)
    local lines = {}
    for line in r.err:gmatch("[^\n]+") do lines[#lines + 1] = line end
    assert.equal(1, #lines, r.err)
    local fields = json.decode(lines[1]).fields
    assert.same({ 3, 3 }, { fields.instances, fields.expected })
    local _, of = next(fields.stores)
    assert.same({ done = 1, refused = 8 }, of.PutBlob.outcomes)
    assert.same({ done = 3 }, of.GetBlob.outcomes)
    assert.is_nil(r.out:find("usage", 1, true))
  end)

  it("says how many could tell", function()
    local r = run { "-n", "3", "--usage", "x.lua", "kill" }
    assert.equal(137, r.code, r.err)
    assert.matches("by 2 of 3 instances\n", r.err, 1, true)
    assert.matches("\nGetBlob +read +2 ", r.err)
  end)

  it("keeps the way to the supervisor from commands", function()
    local r = program.run({ "run", "-n", "1", "--usage", "x.lua" }, {
      files = { ["x.lua"] = [[os.execute("env | grep -c SYNOD_USAGE; ls /proc/self/fd | wc -l")]] },
    })
    assert.matches("| 0\n", r.out, 1, true)
  end)
end)
