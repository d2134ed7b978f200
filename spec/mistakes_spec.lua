-- What a script gets wrong in a call is raised at the script's own line, also where the call is made of several of the
-- core's; and no option is passed over in silence.

local core = require "synod.core"
local sh = require "spec.support.sh"
local synod = require "synod"

--- What the cases are called with; closed by who makes it.
local function world()
  local w = { store = assert(synod.open "memory:"), other = assert(synod.open "memory:") }
  w.container = w.store:container "abc"
  assert(w.container:create())
  w.blob = w.container:blob "x"
  assert(w.blob:put "")
  w.foreign = w.other:container("abc"):blob "x"
  w.source = function()
    w.given = not w.given
    return w.given and "x" or nil
  end
  w.from, w.to = w.store:queue "from", w.store:queue "into"
  assert(w.from:create() and w.to:create())
  w.listener = assert(synod.listen("127.0.0.1:0", function(conn) conn:read(1, { timeout = 0.1 }) end))
  w.conn = assert(synod.connect(w.listener.address))
  return setmetatable(w, { __close = function()
    w.conn:close()
    w.listener:close()
    w.store:close()
    w.other:close()
  end })
end

local CASES = {
  { "option 'duration': 15 to 60 seconds expected", function(w) w.blob:lease { duration = 3 } end },
  { "unknown option 'tiemout' (did you mean 'timeout'?)", function(w) w.blob:lease { tiemout = 3 } end },
  { "bad argument to 'lease' (a table of options expected, got number)", function(w) w.blob:lease(15) end },
  { "option 'keep' must be true or false", function(w) w.blob:lease { keep = "yes" } end },
  { "15 to 60 whole seconds expected", function(w) w.blob:lease { keep = true, duration = 3 } end },
  { "option 'duration': 15 to 60 seconds expected", function(w) w.container:lease { duration = 3 } end },
  { "unknown option 'if_match'", function(w) w.container:lease { if_match = "*" } end },
  { "bad argument to 'lease' (a table of options expected, got number)", function(w) w.container:lease(15) end },
  { "the store of 'x' is closed", function(w) w.other:close() w.foreign:lease() end },
  { "unknown option 'tpye' (did you mean 'type'?)", function(w) w.blob:put("x", { tpye = "page" }) end },
  { "unknown option 'tpye' (did you mean 'type'?)", function(w) w.blob:put(w.source, { tpye = "page" }) end },
  { "unknown option 'tpye'", function(w) w.blob:put(("x"):rep(core.put_bytes_max + 1), { tpye = "page" }) end },
  { "'block', 'page' or 'append' expected, got foo", function(w) w.blob:put(w.source, { type = "foo" }) end },
  { "seconds must not be negative", function(w) w.blob:put(w.source, { timeout = -1 }) end },
  { "the metadata name 'a b'", function(w) w.blob:put(w.source, { metadata = { ["a b"] = "1" } }) end },
  { "a table of options expected, got number", function(w) w.blob:put(w.source, 5) end },
  { "a page or append blob is made empty", function(w) w.blob:put(w.source, { size = 512 }) end },
  { "unknown option 'x'", function(w) w.blob:reader { x = 1 } end },
  { "seconds must not be negative", function(w) w.blob:reader { timeout = -1 } end },
  { "option 'if_match': string expected, got number", function(w) w.blob:reader { if_match = 5 } end },
  { "unknown option 'x'", function(w) w.blob:writer { x = 1 } end },
  { "option 'metadata': table expected, got number", function(w) w.blob:writer { metadata = 5 } end },
  { "a lease id is a GUID", function(w) w.blob:writer { lease = "x" } end },
  { "a blob of this store expected, got number", function(w) w.blob:copy_from(5) end },
  { "a blob of this store expected, got nil", function(w) w.blob:copy_from() end },
  { "a blob of this store expected, got userdata", function(w) w.blob:copy_from(w.container) end },
  { "the blob is in another store", function(w) w.blob:copy_from(w.foreign) end },
  { "unknown option 'x'", function(w) w.blob:copy_from(w.blob, { x = 1 }) end },
  { "seconds must not be negative", function(w) w.blob:copy_from(w.blob, { timeout = -1 }) end },
  { "\"nope\" is no address", function() synod.listen("nope", print) end },
  { "a function is expected, got number", function() synod.listen("127.0.0.1:0", 5) end },
  { "\"nope\" is no address", function() synod.connect "nope" end },
  { "option 'timeout' must be a number", function(w) synod.connect(w.listener.address, { timeout = -1 }) end },
  { "unknown option \"timeuot\"", function(w) synod.connect(w.listener.address, { timeuot = 1 }) end },
  { "unknown option \"timeuot\"", function(w) w.conn:read("line", { timeuot = 1, timeout = 0.01 }) end },
  { "option 'timeout' must be a number of seconds", function(w) w.conn:read("line", { timeout = "1" }) end },
  { "bad argument #2 to 'write' (string expected, got table)", function(w) w.conn:write("x", {}) end },
  { "a run is on already: spawn a task, or give this file to lua5.4", function() synod.main(print) end },
  { "unknown option \"tiemout\"", function(w) require("synod.queue").move(w.from, w.to, { tiemout = 1 }) end },
}

describe("what a call gets wrong is raised at the line of the call:", function()
  for i, case in ipairs(CASES) do
    it(i .. ": " .. case[1], function()
      core.main(function()
        local w <close> = world()
        local line = debug.getinfo(case[2], "S").linedefined
        local ok, problem = pcall(case[2], w)
        assert.is_false(ok)
        assert.matches(case[1], tostring(problem), 1, true)
        local place = ("spec/mistakes_spec.lua:%d: "):format(line)
        assert.equal(place, tostring(problem):sub(1, #place), problem)
      end)
    end)
  end

  for what, wrong in pairs {
    ["synod.main: unknown option 'clok'"] = function(fn) synod.main(fn, { clok = "virtual" }) end,
    ["synod.main: option 'clock': \"virtual\" expected, got vritual"] = function(fn)
      synod.main(fn, { clock = "vritual" })
    end,
    ["synod.main: a table of options expected, got number"] = function(fn) synod.main(fn, 5) end,
    ["synod.main: a function is expected, got nil"] = function() synod.main() end,
  } do
    it("of " .. what, function()
      local ran = false
      local ok, problem = pcall(wrong, function() ran = true end)
      assert.same({ false, false }, { ok, ran })
      assert.matches("^spec/mistakes_spec.lua:%d+: " .. what:gsub("%p", "%%%0"), problem)
    end)
  end

  it("an exit code that is none", function()
    local folder <close> = sh.folder()
    folder:write("exit.lua", "local code = 'x'\nos.exit(code)\n")
    local output, code = sh.run("$SYNOD run $DIR/exit.lua", { dir = folder.path })
    assert.matches("exit.lua:2: bad argument #1 to 'exit' (a whole number or a boolean", output, 1, true)
    assert.equal(1, code)
  end)
end)
