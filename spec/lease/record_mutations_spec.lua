-- Mistakes in the C core of record leases are found out: each is compiled into a module of its own, where a test must
-- fail.

local sh = require "spec.support.sh"

local SECONDS = 60

--- Compiles the mutated file and links it with all other objects; then runs the tests.
local RUN = [[
  objects=$(for c in runtime/*/*.c runtime/*/*/*.c; do
    o=${c#runtime/}; [ "$c" = "$FILE" ] || echo "build/pic/${o%.c}.o"; done)
  mkdir -p "$DIR/lib/synod" &&
  ${CC:-cc} -std=c11 -D_GNU_SOURCE -Iruntime -O1 -fPIC -c "$DIR/mutant.c" -o "$DIR/mutant.o" &&
  ${CC:-cc} -shared -o "$DIR/lib/synod/core.so" "$DIR/mutant.o" $objects \
    -luv -lsqlite3 -lpthread -lrt -lm -ldl || exit 99
  SYNOD_LIB="$DIR/lib" lua5.4 /usr/bin/busted "--filter=$ONLY" "$SPEC"
]]

local function read(path)
  local file <close> = assert(io.open(path))
  return file:read "a"
end

---@return boolean passed, string output
local function run(mutation, text)
  local folder <close> = sh.folder()
  folder:write("mutant.c", text)
  local output, code = sh.run(RUN, { dir = folder.path, timeout = SECONDS, env = {
    FILE = mutation.file, SPEC = mutation.spec, ONLY = mutation.only or "",
  } })
  assert(code ~= 99, output)
  assert(code == 124 or output:find "%d+ success", output)
  return code == 0 and tonumber(output:match "(%d+) success") > 0, output
end

if not os.getenv "SYNOD_ASAN" then -- the sanitizers' build has objects of its own
  describe("record leases", function()
    local list = require "spec.mutations.record"

    it("pass the tests without a mistake", function()
      local first = list[1]
      local passed, output = run(first, read(first.file))
      assert.is_true(passed, output)
    end)

    for _, mutation in ipairs(list) do
      it("would be found out if " .. mutation.why, function()
        local text = read(mutation.file)
        local from, to = text:find(mutation.find, 1, true)
        assert(from, "the place is not there: " .. mutation.find)
        assert.is_nil(text:find(mutation.find, to + 1, true))
        assert.is_false((run(mutation, text:sub(1, from - 1) .. mutation.replace .. text:sub(to + 1))))
      end)
    end
  end)
end
