-- The library with one mistake in it, and whether a spec finds it out.
--
-- A mutation is data: { file = "lua/synod/x.lua", from = "a line", to = "a mistake", spec = "spec/x_spec.lua",
-- why = "...", only = "part of a test's name" }. It is made in a copy of lua/; the spec runs there in a process of its
-- own, so that real processes of the spec have the mistake too.

local sh = require "spec.support.sh"

local mutant = {}

local SECONDS = 20 -- that a spec may take; one that hangs has found the mistake out
local WORLDS = 15  -- drawn by a spec that draws them

local function read(path)
  local file <close> = assert(io.open(path))
  return file:read("a")
end

--- A folder that looks like the project, with a copy of lua/.
---@return spec.Folder
function mutant.copy()
  local folder = sh.folder()
  local output, code = sh.run([[
    cp -r lua .busted "$DIR/" && for each in spec build scripts runtime tools docs node_modules; do
      if [ -e $each ]; then ln -s "$PWD/$each" "$DIR/$each" || exit 1; fi
    done]], { dir = folder.path })
  assert(code == 0, output)
  return folder
end

--- Runs a spec in a copy.
---@param folder spec.Folder
---@param spec string
---@param only? string  a Lua pattern: the tests to run
---@return boolean passed, string output
function mutant.run(folder, spec, only)
  local filter = only and "--filter=" .. sh.quote(only) or ""
  local command = ([[cd "$DIR" && SYNOD_WORLDS=%d SYNOD_LUA_DIR="$DIR/lua" lua5.4 /usr/bin/busted %s %s]]):format(
    WORLDS, filter, spec)
  local output, code = sh.run(command, { dir = folder.path, timeout = SECONDS })
  assert(code == 124 or output:find("%d+ success"), output)
  local count = tonumber(output:match("(%d+) success"))
  assert(code ~= 0 or count > 0, "no test has run: " .. spec .. " " .. filter)
  return code == 0, output
end

--- Makes the mistake in the copy, and gives what takes it back.
---@param folder spec.Folder
---@param m { file: string, from: string, to: string }
function mutant.make(folder, m)
  local source = read(m.file)
  local from, to = source:find(m.from, 1, true)
  assert(from and not source:find(m.from, to + 1, true), ("it must be in %s, once: %s"):format(m.file, m.from))
  local changed = source:sub(1, from - 1) .. m.to .. source:sub(to + 1)
  assert(load(changed, "=" .. m.file, "t", {}))
  folder:write(m.file, changed)
  return setmetatable({}, { __close = function() folder:write(m.file, source) end })
end

return mutant
