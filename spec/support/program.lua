-- Runs the built program as a real process and waits for it.
--
--   local program = require "spec.support.program"
--   local r = program.run({ "run", "x.lua" }, { files = { ["x.lua"] = "print(1)" }, env = { NAME = "value" } })
--   r.code, r.out, r.err

local program = {}

local TIMEOUT_S = 20

program.path = os.getenv("SYNOD_BIN") or "build/synod"

local function quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("a")
  file:close()
  return text
end

local function write(path, text)
  local folder = path:match("^(.*)/")
  assert(os.execute("mkdir -p " .. quote(folder)))
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

local function here()
  local pwd = io.popen("pwd")
  local path = pwd:read("l")
  pwd:close()
  return path
end

--- A folder of its own, to be closed.
function program.folder()
  local path = os.tmpname()
  os.remove(path)
  assert(os.execute("mkdir -m 700 " .. quote(path)))
  return setmetatable({ path = path }, {
    __close = function() os.execute("rm -rf " .. quote(path)) end,
  })
end

--- Runs the program in a folder of its own, with these files, and its state there. `before` is shell text, such as
--- a limit; an env value of false takes the variable away.
---@param args string[]
---@param options? { files?: table<string, string>, env?: table<string, string|false>, before?: string, input?: string }
---@return { code: integer, out: string, err: string }
function program.run(args, options)
  options = options or {}
  local folder <close> = program.folder()
  local dir = folder.path
  for name, text in pairs(options.files or {}) do write(dir .. "/files/" .. name, text) end
  write(dir .. "/input", options.input or "")
  local path = program.path:sub(1, 1) == "/" and program.path or here() .. "/" .. program.path
  local env = { "-u", "SYNOD_STORE", "-u", "SYNOD_INSTANCE" }
  local set = { "XDG_STATE_HOME=" .. dir .. "/state" }
  for name, value in pairs(options.env or {}) do
    if value then set[#set + 1] = name .. "=" .. value else table.move({ "-u", name }, 1, 2, #env + 1, env) end
  end
  local words = {}
  local bounded = { "timeout", "--foreground", "-k", "2", tostring(TIMEOUT_S), path }
  for _, list in ipairs { { "env" }, env, set, bounded, args } do
    for _, word in ipairs(list) do words[#words + 1] = quote(word) end
  end
  local command = ("mkdir -p %s/files && cd %s/files && %s %s <../input >../out 2>../err"):format(
    quote(dir), quote(dir), options.before or "", table.concat(words, " "))
  local _, _, code = os.execute(command)
  return { code = code, out = read(dir .. "/out"), err = read(dir .. "/err") }
end

return program
