-- The command dispatcher. A command NAME is the module `cli.NAME`, which returns
--
--   {
--     summary = "one line for `synod help`",
--     usage   = { "[OPTIONS] SCRIPT [ARG...]" },        one line each, without `synod NAME`
--     options = { ... },                                rows of cli.options
--     stop    = true,                                   options end at the first other word
--     notes   = "more for `synod help NAME`",           may be absent
--     virtual = true,                                   it wants a clock that jumps
--     run     = function(parsed) ... return exit_code end,
--   }
--
-- `parsed` is cli.options.parse's result. A wrong use is `return options.refuse("what; what to do", NAME)`; an error
-- raised out of `run` is shown by cli.failure and gives the exit code.

local options = require "cli.options"

local COMMANDS = { "run", "explain", "lock", "lead", "wait", "status", "store", "help", "version" }

local function is_command(word)
  for _, name in ipairs(COMMANDS) do
    if name == word then return true end
  end
  return false
end

--- A word that is no command is a script, if it can be one: it exists, or is written like a file.
local function is_script(word)
  if word:find("[./]") then return true end
  local file = io.open(word, "rb")
  if file then file:close() end
  return file ~= nil
end

local function unknown(word)
  if word:sub(1, 1) == "-" then
    local near = options.nearest(word, { "--help", "--version" })
    if near then return options.refuse(("unknown option %s, did you mean %s?"):format(word, near)) end
    return options.refuse(("options stand after a command: synod run %s ... SCRIPT"):format(word))
  end
  local near = options.nearest(word, COMMANDS)
  local hint = near and ("did you mean 'synod " .. near .. "'?")
    or "a script is given by its file name, such as ./" .. word
  return options.refuse(("unknown command '%s': %s"):format(word, hint))
end

---@param name string
---@param args string[]
---@param first integer
---@return integer exit_code
local function run_command(name, args, first)
  local command = require("cli." .. name)
  local rows = { { name = "help", short = "h", meaning = "print this" } }
  table.move(command.options, 1, #command.options, 2, rows)
  local parsed, problem = options.parse(rows, args, first, command.stop)
  if not parsed then return options.refuse(problem, name) end
  if parsed.help then
    parsed.args = { name }
    return require("cli.help").run(parsed)
  end
  return command.run(parsed) or 0
end

--- The main task of the program.
---@param args string[]
---@return integer exit_code
local function main(args)
  local word = args[1]
  if word == nil then
    io.stderr:write(require("cli.help").overview())
    return 2
  elseif is_command(word) then
    return run_command(word, args, 2)
  elseif word == "--help" or word == "-h" then
    return run_command("help", args, 2)
  elseif word == "--version" then
    return run_command("version", args, 2)
  elseif word:sub(1, 1) ~= "-" and is_script(word) then
    return run_command("run", args, 1)
  end
  return unknown(word)
end

--- Whether the command wants a clock that jumps instead of the real one.
---@param args string[]
---@return boolean
local function is_virtual(args)
  return is_command(args[1]) and require("cli." .. args[1]).virtual == true
end

return setmetatable({ COMMANDS = COMMANDS, is_virtual = is_virtual }, {
  __call = function(_, args) return main(args) end,
})
