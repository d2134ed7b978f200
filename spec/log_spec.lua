-- synod.log: what a line looks like, and that a call never fails and never waits.

local sh = require "spec.support.sh"

--- Runs a script and returns what it writes to standard error, and its exit code.
local function log(lua, arguments, script)
  local folder <close> = sh.folder()
  folder:write("x.lua", "local log = require('synod').log\n" .. lua)
  script = script or [[ exec $SYNOD run --instance w_IN_2 $ARGUMENTS "$DIR/x.lua" ]]
  return sh.run(script, { dir = folder.path, env = { ARGUMENTS = arguments or "" }, timeout = 20 })
end

local TIME = "%d%d%d%d%-%d%d%-%d%d %d%d:%d%d:%d%d%.%d%d%dZ"

describe("a log line for people", function()
  it("has the time, the level, the instance, the message and the fields", function()
    assert.matches("^" .. TIME .. " INFO  w_IN_2 all are ready n=3 what=barrier\n$",
      (log [[log.info("all are ready", { what = "barrier", n = 3 })]]))
  end)

  for level, label in pairs { info = "INFO ", warn = "WARN ", error = "ERROR" } do
    it("says " .. label, function()
      assert.matches(" " .. label .. " w_IN_2 x\n$", (log("log." .. level .. "('x')")))
    end)
  end

  it("quotes what is not one word, and keeps to one line", function()
    local out = log [[log.info("a\nb\27[0m", { ["k e"] = "two words", e = "", q = 'a"b', nl = "x\ny" })]]
    assert.truthy(out:find([[a\nb\u001b[0m e="" k e="two words" nl="x\ny" q="a\"b"]], 1, true), out)
  end)

  it("shows every kind of value", function()
    local out = log [[
      local shown = setmetatable({}, { __tostring = function() return "shown" end })
      log.info("x", { a = 1, b = 1.5, c = true, d = shown, e = { 1, { k = "v" } }, f = 1 / 0, g = 2^53 })
    ]]
    assert.truthy(out:find([[a=1 b=1.5 c=true d=shown e=[1,{"k":"v"}] f=inf g=9.007199254741e+15]], 1, true)
      or out:find([[a=1 b=1.5 c=true d=shown e=[1,{"k":"v"}] f=inf g=9007199254740992]], 1, true), out)
  end)

  it("has no colour where nobody sees it", function()
    assert.is_nil((log [[log.error("x")]]):find("\27", 1, true))
  end)

  it("has colour on a terminal, and none with NO_COLOR", function()
    local terminal = [[ TERM=xterm script -qec "$SYNOD run $DIR/x.lua" /dev/null ]]
    assert.truthy(log([[log.error("x")]], "", terminal):find("\27[31mERROR\27[0m", 1, true))
    assert.is_nil(log([[log.error("x")]], "", "NO_COLOR=1 " .. terminal):find("\27", 1, true))
  end)
end)

describe("a log line for programs", function()
  local function json(lua)
    local out = log(lua, "--log-format json")
    local object = require("cjson").decode(out)
    assert.equal(1, select(2, out:gsub("\n", "")))
    return object, out
  end

  it("is one JSON object", function()
    local object = json [[log.warn("hello", { a = 1, t = { x = { 1, 2 } }, s = "q\"\\\n\t" })]]
    assert.matches("^%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%d%.%d%d%dZ$", object.time)
    object.time = nil
    assert.same({
      level = "warn", instance = "w_IN_2", task = "main", message = "hello",
      fields = { a = 1, t = { x = { 1, 2 } }, s = "q\"\\\n\t" },
    }, object)
  end)

  it("names the task", function()
    assert.matches("^task%-%d+$", json([[require("synod").spawn(function() log.info("x") end)]]).task)
  end)

  it("is valid whatever the bytes", function()
    local object, out = json [[
      local all = {}
      for i = 0, 255 do all[#all + 1] = string.char(i) end
      log.info(table.concat(all), { ["k\0\255"] = "\u{1F600}\xED\xA0\x80" })
    ]]
    assert.truthy(object.message:find("\u{FFFD}", 1, true))
    assert.truthy(out:find("\u{1F600}", 1, true))
  end)

  it("has numbers that JSON has not as text", function()
    assert.same({ a = "inf", b = "-inf" }, json([[log.info("x", { a = 1 / 0, b = -1 / 0 })]]).fields)
  end)
end)

describe("a log call", function()
  it("shows what the level lets through", function()
    local all = [[for _, level in ipairs { "debug", "info", "warn", "error" } do log[level](level .. "!") end]]
    for level, count in pairs { debug = 4, info = 3, warn = 2, error = 1 } do
      assert.equal(count, select(2, log(all, "--log-level " .. level):gsub("!", "")))
    end
    assert.equal(3, select(2, log(all):gsub("!", "")))
  end)

  it("never fails", function()
    local out, code = log [[
      log.info()
      log.info(nil, 5)
      log.info({}, "text")
      log.info(setmetatable({}, { __tostring = function() error("no") end }))
      local loop = {}
      loop.self = loop
      log.info("loop", loop)
      log.info("keys", { [{}] = 1, [1] = 2, [true] = 3 })
      log.info("lazy", setmetatable({}, { __index = error, __pairs = error, __len = error }))
      log.info("done")
    ]]
    assert.equal(0, code, out)
    assert.matches(" done\n$", out)
    assert.equal(8, select(2, out:gsub("\n", "")))
  end)

  it("shows of tables that hold each other many times no more than a line has room for", function()
    local out, code = log [[
      local wide = {}
      for i = 1, 64 do wide[i] = wide end
      log.info("wide", { wide = wide })
      assert(collectgarbage "count" < 64 * 1024)
    ]]
    assert.equal(0, code, out)
    assert.matches("cut: it is too long", out)
  end)

  it("cuts a line that is too long, and says so", function()
    local out = log [[log.info(("m"):rep(100000), { a = ("x"):rep(100000), b = "short" })]]
    assert.is_true(#out <= 64 * 1024)
    assert.matches("cut: it is too long", out)
    assert.equal(1, select(2, out:gsub("\n", "")))
    local json = log([[log.info(("m"):rep(100000), { a = ("x"):rep(100000) })]], "--log-format json")
    assert.is_true(require("cjson").decode(json).cut)
  end)

  it("does not wait for a reader; what is dropped is counted", function()
    local out = log([[
      local synod = require "synod"
      local began = synod.now()
      for i = 1, 50000 do log.info(("x"):rep(80), { i = i }) end
      print(synod.now() - began < 5)
      synod.sleep(0.8)
      log.info("after")
    ]], "", [[ $SYNOD run "$DIR/x.lua" 2>&1 >"$DIR/out" | { sleep 0.6; cat; }; cat "$DIR/out" ]])
    local dropped = 0
    for count in out:gmatch("log lines were dropped: standard error was not read count=(%d+)") do
      dropped = dropped + tonumber(count)
    end
    assert.is_true(dropped > 0)
    local _, seen = out:gsub("xxxx i=", "")
    assert.equal(50000, seen + dropped)
    assert.matches(" after\ntrue\n$", out)
  end)

  it("goes to standard error", function()
    assert.equal("", (log([[log.error("x")]], "", [[ $SYNOD run "$DIR/x.lua" 2>/dev/null ]])))
  end)
end)
