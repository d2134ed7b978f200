-- synod help [COMMAND]: all of it is made from the declarations of the commands.

local options = require "cli.options"

local help = {
  summary = "explain the commands, or one of them",
  usage = { "[COMMAND]" },
  options = {},
}

local WIDTH, INDENT = 90, 26

--- Breaks a text into lines of at most `width`.
local function wrap(text, width)
  local lines, line = {}, ""
  for word in text:gmatch("%S+") do
    if line ~= "" and #line + 1 + #word > width then
      lines[#lines + 1], line = line, word
    else
      line = line == "" and word or line .. " " .. word
    end
  end
  lines[#lines + 1] = line
  return lines
end

local function entry(name, text)
  local lines = wrap(text, WIDTH - INDENT)
  local pad = (" "):rep(INDENT)
  local first = "  " .. name
  first = #first < INDENT - 1 and first .. pad:sub(#first + 1) or first .. "\n" .. pad
  return first .. table.concat(lines, "\n" .. pad) .. "\n"
end

local function option_entry(row)
  local short = row.short and #row.name == 1 and "" or (row.short and "-" .. row.short .. ", " or "")
  local name = short .. (#row.name == 1 and "-" or "--") .. row.name .. (row.value and " " .. row.value or "")
  local more = {}
  if row.default then more[#more + 1] = "default: " .. row.default end
  if row.env then more[#more + 1] = "environment: " .. row.env end
  return entry(name, row.meaning .. (#more > 0 and " (" .. table.concat(more, "; ") .. ")" or ""))
end

local EXIT_CODES = {
  { "0", "done" }, { "1", "the script failed" }, { "2", "wrong usage" },
  { "3", "the store cannot be reached or refused the credentials" }, { "4", "timed out" },
  { "5", "leadership or lock lost" }, { "128 + n", "ended by signal n" },
}

--- What `synod` and `synod help` print.
---@return string
function help.overview()
  local out = {
    "synod runs coordination policies written in Lua: on one machine or on a fleet.\n\n",
    "usage: synod SCRIPT [ARG...]\n       synod COMMAND [OPTIONS] ...\n\ncommands:\n",
  }
  for _, name in ipairs(require("cli").COMMANDS) do
    out[#out + 1] = entry(name, require("cli." .. name).summary)
  end
  out[#out + 1] = "\nexit codes:\n"
  for _, row in ipairs(EXIT_CODES) do out[#out + 1] = entry(row[1], row[2]) end
  out[#out + 1] = "\nsynod help COMMAND explains one. Start with: synod run -n 3 scripts/startup-barrier.lua\n"
  return table.concat(out)
end

--- The help of one command.
---@param name string
---@return string
function help.command(name)
  local command = require("cli." .. name)
  local out = { "synod " .. name .. ": " .. command.summary .. "\n\n" }
  for i, line in ipairs(command.usage) do
    local words = line ~= "" and name .. " " .. line or name
    out[#out + 1] = (i == 1 and "usage: " or "       ") .. "synod " .. words .. "\n"
  end
  if #command.options > 0 then out[#out + 1] = "\noptions:\n" end
  for _, row in ipairs(command.options) do
    if not row.hidden then out[#out + 1] = option_entry(row) end
  end
  if command.notes then out[#out + 1] = "\n" .. table.concat(wrap(command.notes, WIDTH), "\n") .. "\n" end
  return table.concat(out)
end

function help.run(parsed)
  local name = parsed.args[1]
  if not name then
    io.write(help.overview())
    return 0
  end
  local names = require("cli").COMMANDS
  for _, known in ipairs(names) do
    if known == name then
      io.write(help.command(name))
      return 0
    end
  end
  local near = options.nearest(name, names)
  return options.refuse(("there is no command '%s'%s"):format(name,
    near and (", did you mean " .. near .. "?") or ": 'synod help' lists them"))
end

return help
