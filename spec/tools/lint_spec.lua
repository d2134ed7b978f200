-- Each rule of tools/lint.lua is shown a sample that breaks it, and the same sample mended.

local LINT = "tools/lint.lua"

local function write(path, text)
  assert(os.execute(("mkdir -p '%s'"):format(path:match("^(.*)/"))))
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
end

--- What lint says of a tree of these files.
local function lint(files)
  local root = os.tmpname()
  os.remove(root)
  assert(os.execute(("mkdir -p '%s'"):format(root)))
  for path, text in pairs(files) do write(root .. "/" .. path, text) end
  local run = io.popen(("lua5.4 %s '%s' 2>&1"):format(LINT, root))
  local said = run:read("a")
  local ok = run:close()
  os.execute(("rm -rf '%s'"):format(root))
  return ok == true, said
end

local function long_function(lines)
  return "int f(void) {\n" .. ("    g();\n"):rep(lines - 2) .. "}\n"
end

-- rule, path, what breaks it, what does not, and what is said
local SAMPLES = {
  { "a lower room does not include a higher one", "runtime/base/x.c",
    '#include "store/client.h"\n', '#include "base/buf.h"\n', "base must not include from store" },
  { "the vm does not know the store", "runtime/vm/x.c",
    '#include "store/client.h"\n', '#include "world/world.h"\n', "vm must not include from store" },
  { "the embedded store does not know the other transport", "runtime/store/embedded/x.c",
    '#include "store/azure/xml.h"\n', '#include "store/json.h"\n', "store/embedded must not know store/azure" },
  { "engines do not know Lua", "runtime/store/x.c",
    "#include <lua.h>\n", "#include <stdio.h>\n", "<lua.h> must not be included here" },
  { "only one file knows SQLite", "runtime/store/embedded/embedded.c",
    "#include <sqlite3.h>\n", '#include "store/client.h"\n', "<sqlite3.h> must not" },
  { "only one file knows libuv's loop", "runtime/store/x.c", "#include <uv.h>\n", "\n", "<uv.h> must not" },
  { "only one file signs", "runtime/store/azure/azure.c",
    "#include <openssl/hmac.h>\n", "\n", "<openssl/hmac.h> must not" },
  { "policies do not know the commands", "lua/synod/x.lua",
    'local run = require "cli.run"\n', 'local task = require("synod.task")\n', "lua/synod must not require cli" },
  { "policies do not know the simulator", "lua/synod/x.lua",
    "require('sim.world')\n", 'require "synod.core"\n', "lua/synod must not require sim" },
  { "a C file has an end", "runtime/base/x.c", ("\n"):rep(601), ("\n"):rep(600), "601 lines" },
  { "a header has an end", "runtime/base/x.h", ("\n"):rep(251), ("\n"):rep(250), "251 lines" },
  { "a Lua file has an end", "lua/synod/x.lua", ("\n"):rep(401), ("\n"):rep(400), "401 lines" },
  { "a function has an end", "runtime/base/x.c", long_function(71), long_function(70), "a function of 71 lines" },
  { "one door into Lua", "runtime/bind/x.c",
    "    lua_resume(L, from, 0, &n);\n", "    vm_resume(L);\n", "lua_resume" },
  { "no state of a file", "runtime/base/x.c",
    "static int count;\n", "static const int count = 1;\n", "mutable state" },
  { "no state of a function", "runtime/base/x.c",
    "    static char text[80];\n", "    static const char text[] = \"x\";\n", "mutable state" },
  { "no public state either", "runtime/base/x.c", "int count = 0;\n", "int count(void);\n", "mutable state" },
  { "nothing is left for later", "README.md", "TO" .. "DO: more\n", "More.\n", "write an issue" },
  { "no path of one machine", "Makefile", "X = /ho" .. "me/me/x\n", "X = x\n", "of one machine" },
  { "links lead somewhere", "docs/guide.md", "[calls](reference/nowhere.md)\n",
    "[calls](reference/calls.md#known_call), [web](https://example.org)\n", "a link to what is not there" },
  { "what scripts can call is documented: bindings", "runtime/bind/x.c",
    '    {"unknown_call", l_x},\n', '    {"known_call", l_x},\n', "'unknown_call' can be called" },
  { "what scripts can require is documented", "lua/synod/y/z.lua", "", nil,
    "the module 'synod.y.z' can be required" },
  { "every page is in the list of them", "docs/reference/queues.md", "# Queues\n", nil,
    "this page is not in the list" },
  { "what scripts can call is documented: modules", "lua/synod/x.lua",
    "function x.unknown_call()\n", "function x:known_call()\n", "'unknown_call' can be called" },
}

describe("tools/lint.lua", function()
  for _, sample in ipairs(SAMPLES) do
    local rule, path, bad, good, message = table.unpack(sample)
    it("sees that " .. rule, function()
      local docs, list = "docs/reference/calls.md", "docs/reference/README.md"
      local known, listed = "`known_call` of `synod.x`\n", "[calls](calls.md)\n"
      local ok, said = lint { [path] = bad, [docs] = known, [list] = listed }
      assert.is_false(ok)
      assert.truthy(said:find(message, 1, true), said)
      if not good then -- what is mended is the pages
        good, known = bad, known .. "`synod.y.z`\n"
        if path:find "queues" then listed = listed .. "[queues](queues.md)\n" end
      end
      ok, said = lint { [path] = good, [docs] = known, [list] = listed }
      assert.is_true(ok, said)
    end)
  end
end)
