-- lint: the rules of the house that no compiler knows.
--
--   lua5.4 tools/lint.lua [ROOT]       prints path:line: message for each breach; exit code 1 when there is one
--
-- Who may include and require whom, which file may use which library, sizes, state, marks, machine paths, and that
-- what scripts can call is documented. docs/decisions/ says why.

local root = arg[1] or "."

---------------------------------------------------------------- the rules

local SIZE_MAX = { c = 600, h = 250, lua = 400 }
local SPEC_SIZE_MAX = 800 -- a spec lists cases
local FUNCTION_LINES_MAX = 70

-- A room may include from these; main.c and bind from all.
local C_ROOMS = {
  base = { "base" },
  world = { "base", "world" },
  store = { "base", "world", "store" },
  lease = { "base", "world", "store", "lease" },
  vm = { "base", "world", "vm" },
  sim = { "base", "world", "store", "lease", "vm", "sim" },
}

-- Within the store: the rooms that must not know each other. What they share lies above them.
local C_APART = {
  ["store/embedded"] = { "store/azure", "store/http" },
  ["store/azure"] = { "store/embedded" },
  ["store/http"] = { "store/embedded", "store/azure" },
}

-- A library's header, and the files that may include it (patterns of paths below runtime/).
local LIBRARIES = {
  { "^lua%.h$", { "^vm/", "^bind/", "^main%.c$" } },
  { "^lauxlib%.h$", { "^vm/", "^bind/", "^main%.c$" } },
  { "^lualib%.h$", { "^vm/", "^bind/", "^main%.c$" } },
  { "^uv%.h$", { "^world/world_real%.c$", "^world/loop%.c$", "^world/%w+_real%.c$", "^world/stream%.c$",
    "^world/process%.c$", "^store/http/", "^bind/version%.c$" } },
  { "^curl/", { "^store/http/", "^store/library%.[ch]$" } },
  { "^sqlite3%.h$", { "^store/embedded/rows_sqlite[_%w]*%.[ch]$", "^bind/version%.c$" } },
  { "^openssl/", { "^store/azure/sign%.c$", "^store/library%.[ch]$" } },
  { "^libxml/", { "^store/azure/xml%.c$", "^store/library%.[ch]$" } },
  { "^jansson%.h$", { "^store/json%.c$" } },
}

-- A room of lua/ may require from these and the system's own modules.
local LUA_ROOMS = {
  synod = { "synod" },
  fabric = { "fabric", "synod" },
  sim = { "sim", "synod" },
  cli = { "cli", "synod", "fabric", "sim" },
}

local MARKS = { "TO" .. "DO", "FIX" .. "ME", "XX" .. "X" }
local PLACES = {
  "/ho" .. "me/", "/Us" .. "ers/", "/ro" .. "ot/", "/wo" .. "rk/", "registry%.npm" .. "js", "deb%.deb" .. "ian%.org",
}

---------------------------------------------------------------- reading

local breaches = 0

local function breach(path, line, message, ...)
  breaches = breaches + 1
  print(("%s:%d: " .. message):format(path, line, ...))
end

local function lines_of(path)
  local lines = {}
  for line in io.lines(root .. "/" .. path) do lines[#lines + 1] = line end
  return lines
end

local function files()
  local list = {}
  local find = io.popen(("cd '%s' && find . -type f -not -name .git -not -path './.git/*' -not -path './build/*' "
    .. "-not -path './node_modules/*' | sort"):format(root))
  for path in find:lines() do list[#list + 1] = path:sub(3) end
  find:close()
  return list
end

local function any(patterns, text)
  for _, pattern in ipairs(patterns) do
    if text:find(pattern) then return true end
  end
  return false
end

local function has(list, item)
  for _, each in ipairs(list) do
    if each == item then return true end
  end
  return false
end

---------------------------------------------------------------- C

local function check_include(path, number, line)
  local inside = path:match("^runtime/(.+)$")
  local room = inside:match("^(%w+)/")
  local own = line:match('^#include "(%w+)/')
  if own and C_ROOMS[room] and not has(C_ROOMS[room], own) then
    breach(path, number, "%s must not include from %s (it may: %s)", room, own, table.concat(C_ROOMS[room], ", "))
  end
  local other = line:match('^#include "(%w+/%w+)/')
  if other and has(C_APART[inside:match("^%w+/%w+")] or {}, other) then
    breach(path, number, "%s must not know %s", inside:match("^%w+/%w+"), other)
  end
  local header = line:match("^#include <(.+)>")
  for _, rule in ipairs(header and LIBRARIES or {}) do
    if header:find(rule[1]) and not any(rule[2], inside) then
      breach(path, number, "<%s> must not be included here", header)
    end
  end
end

--- Mutable variables that outlive a call: a hundred instances and a simulator share a process.
local function check_state(path, number, line)
  if path == "runtime/main.c" or line:find("%f[%w]const%f[%W]") or line:find("_Static_assert") then return end
  local before_value = line:match("^%s*static ([^=;]+)[=;]") or line:match("^[%a_][%w_ ]*[ %*][%w_%[%]]+ =")
  if before_value and not before_value:find("%(") then
    breach(path, number, "mutable state of a file: it belongs in a struct that somebody owns")
  end
end

--- A function begins at column 0, its body ends with a brace there.
local function check_functions(path, lines)
  local begin
  for number, line in ipairs(lines) do
    if line:find("^}") then
      if begin and number - begin + 1 > FUNCTION_LINES_MAX then
        breach(path, begin, "a function of %d lines (at most %d)", number - begin + 1, FUNCTION_LINES_MAX)
      end
      begin = nil
    elseif line:find("^[%a_].*%(") and not line:find(";%s*$") then
      begin = number
    end
  end
end

local function check_c(path, lines)
  for number, line in ipairs(lines) do
    check_include(path, number, line)
    if path:find("%.c$") then check_state(path, number, line) end
    if line:find("%f[%w_]lua_resume%f[^%w_]") and not path:find("^runtime/vm/") then
      breach(path, number, "lua_resume: Lua is entered through runtime/vm/ only")
    end
  end
  check_functions(path, lines)
end

---------------------------------------------------------------- Lua

local function check_lua(path, lines)
  local room = path:match("^lua/(%w+)/")
  for number, line in ipairs(lines) do
    local required = room and line:match("require%s*%(?%s*[\"']([%w_]+)")
    if required and LUA_ROOMS[required] and not has(LUA_ROOMS[room] or {}, required) then
      breach(path, number, "lua/%s must not require %s", room, required)
    end
  end
end

---------------------------------------------------------------- documentation

--- Names that scripts can call: rows of luaL_Reg tables, and functions of the modules of lua/synod.
local function names_in(path, lines)
  local names = {}
  for number, line in ipairs(lines) do
    if path:find("^runtime/bind/.*%.c$") then
      for name in line:gmatch('{"(%a[%w_]*)", [%w_]+}') do names[#names + 1] = { name, number } end
    elseif path:find("^lua/synod/") then
      local name = line:match("^function [%w_]+[.:](%a[%w_]*)%(")
      if name then names[#names + 1] = { name, number } end
    end
  end
  return names
end

--- "lua/synod/barrier/flags.lua" -> "synod.barrier.flags"
local function module_of(path)
  local name = path:match("^lua/(synod/.*)%.lua$")
  return name and name:gsub("/init$", ""):gsub("/", ".") or nil
end

local function check_documented(paths, contents)
  local documented, listed = {}, contents["docs/reference/README.md"]
  for _, path in ipairs(paths) do
    local page = path:match("^docs/reference/(.*%.md)$")
    if page then
      local text = table.concat(contents[path], "\n")
      for word in text:gmatch("%a[%w_]*") do documented[word] = true end
      for name in text:gmatch("synod%.[%w_.]*[%w_]") do
        while name do -- "synod.log.configure" speaks of synod.log
          documented[name] = true
          name = name:match("^(.*)%.")
        end
      end
      if listed and page ~= "README.md" and not table.concat(listed):find("](" .. page .. ")", 1, true) then
        breach(path, 1, "this page is not in the list of docs/reference/README.md")
      end
    end
  end
  for _, path in ipairs(paths) do
    local module = module_of(path)
    if module and module ~= "synod" and not documented[module] then
      breach(path, 1, "the module '%s' can be required by scripts and is not in docs/reference", module)
    end
    for _, name in ipairs(names_in(path, contents[path])) do
      if not documented[name[1]] then
        breach(path, name[2], "'%s' can be called by scripts and is not in docs/reference", name[1])
      end
    end
  end
end

--- A link to a file of the project leads somewhere.
local function check_links(path, lines)
  local folder = path:match("^(.*/)") or ""
  for number, line in ipairs(lines) do
    for target in line:gmatch("%]%(([^)#][^)]*)%)") do
      local name = target:gsub("#.*$", "")
      local file = not name:find("^%a+:") and io.open(root .. "/" .. folder .. name)
      if file then
        file:close()
      elseif file == nil then
        breach(path, number, "a link to what is not there: %s", name)
      end
    end
  end
end

---------------------------------------------------------------- every text

local TEXT = {
  "%.[ch]$", "%.lua$", "%.md$", "%.json$", "%.js$", "%.sh$", "%.yml$", "^Makefile$", "^tools/", "^%.ci/", "^%.%w+$",
}

local function check_text(path, lines)
  for number, line in ipairs(lines) do
    for _, mark in ipairs(MARKS) do
      if line:find("%f[%w_]" .. mark .. "%f[^%w_]") then breach(path, number, "%s: do it, or write an issue", mark) end
    end
    for _, place in ipairs(PLACES) do
      if line:find(place) then breach(path, number, "a path or host of one machine: %s", line:match(place)) end
    end
  end
  local kind = path:match("%.(%w+)$")
  local max = path:find("^spec/") and SPEC_SIZE_MAX or SIZE_MAX[kind]
  if max and #lines > max then breach(path, max + 1, "%d lines (at most %d): split it by noun", #lines, max) end
end

local paths, contents = {}, {}
for _, path in ipairs(files()) do
  if any(TEXT, path) then
    local lines = lines_of(path)
    paths[#paths + 1], contents[path] = path, lines
    if path ~= "package-lock.json" then check_text(path, lines) end
    if path:find("%.md$") then check_links(path, lines) end
    if path:find("^runtime/.*%.[ch]$") then check_c(path, lines) end
    if path:find("^lua/.*%.lua$") then check_lua(path, lines) end
  end
end
check_documented(paths, contents)

if breaches > 0 then
  io.stderr:write(("lint: %d breach%s\n"):format(breaches, breaches == 1 and "" or "es"))
  os.exit(1)
end
