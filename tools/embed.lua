-- embed.lua: turns the Lua library into a C file, so that build/synod is one file.
--
--   lua5.4 tools/embed.lua text|bytecode OUT.c FILE.lua...
--
-- lua/synod/barrier.lua becomes the module `synod.barrier`, lua/cli/init.lua the module `cli`. Bytecode keeps
-- its debug information: tracebacks name the files of the tree.

local form, out = arg[1], arg[2]

local function module_name(path)
  local name = path:match("^lua/(.+)%.lua$") or error(path .. ": not a file of lua/")
  return (name:gsub("/init$", ""):gsub("/", "."))
end

--- A C string literal of any bytes. Octal escapes of three digits cannot swallow what follows them.
local function literal(bytes)
  local lines = {}
  for at = 1, #bytes, 64 do
    local piece = bytes:sub(at, at + 63):gsub('[^%w .,;:(){}<>=+*/%%_%-]', function(c)
      return ("\\%03o"):format(c:byte())
    end)
    lines[#lines + 1] = '    "' .. piece .. '"'
  end
  return #lines > 0 and table.concat(lines, "\n") or '    ""'
end

local modules = {}
for i = 3, #arg do
  local path = arg[i]
  local file = assert(io.open(path, "rb"))
  local text = file:read("a")
  file:close()
  local compiled = assert(load(text, "@" .. path, "t"))
  local code = form == "bytecode" and string.dump(compiled) or text
  modules[#modules + 1] = { name = module_name(path), path = path, code = code }
end
table.sort(modules, function(a, b) return a.name < b.name end)

local c = {
  "/* Made by tools/embed.lua; sorted by name. */",
  '#include "library.h"',
  "const struct library_module library_modules[] = {",
}
for _, m in ipairs(modules) do
  c[#c + 1] = ('{"%s", "@%s", %d,\n%s},'):format(m.name, m.path, #m.code, literal(m.code))
end
c[#c + 1] = "};"
c[#c + 1] = ("const size_t library_count = %d;\n"):format(#modules)

local file = assert(io.open(out, "wb"))
assert(file:write(table.concat(c, "\n")))
assert(file:close())
