-- synod version: what is running, down to the libraries.

local VERSION = "0.1.0"

-- The last five are loaded on first use: a machine without them has no Azure, and says so here.
local LIBRARIES = { "Lua", "libuv", "SQLite", "libcurl", "OpenSSL", "libxml2", "jansson" }

local version = {
  summary = "print the version, and those of the libraries in use",
  usage = { "" },
  options = {},
  VERSION = VERSION,
}

--- The number in what a library calls its version: "OpenSSL 3.0.22 25 Aug", "20914" (libxml2's way of writing 2.9.14).
local function number(text)
  local whole = math.tointeger(tonumber(text))
  if whole then return ("%d.%d.%d"):format(whole // 10000, whole // 100 % 100, whole % 100) end
  return text:match("%d+%.[%d.]+%w*") or text
end

function version.run(parsed)
  if parsed.args[1] then
    return require("cli.options").refuse("version takes no argument: " .. parsed.args[1], "version")
  end
  local found = require("synod.core").versions()
  local lines = { "synod " .. VERSION }
  for _, name in ipairs(LIBRARIES) do
    lines[#lines + 1] = ("  %-9s %s"):format(name, found[name] and number(found[name]) or "not installed")
  end
  io.write(table.concat(lines, "\n"), "\n")
  return 0
end

return version
