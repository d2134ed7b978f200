-- Reading a script: text only, and every way in which that fails has its own sentence.

local source = {}

local FAILED, USAGE = 1, 2

local function without_shebang(text)
  return text:sub(1, 1) == "#" and text:gsub("^[^\n]*", "", 1) or text
end

--- A file's content; Lua opens folders too and fails to read them.
local function read(path)
  local file, problem = io.open(path, "rb")
  if not file then return nil, (problem:gsub("^.*: ", "")) end
  local text, unreadable = file:read("a")
  file:close()
  if not text then return nil, unreadable end
  return text
end

---@param path string
---@return function|nil chunk, string? problem, integer? exit_code
function source.load(path)
  local text, problem = read(path)
  if not text then
    return nil, ("cannot read the script '%s': %s; check the path, which is taken from the current folder")
      :format(path, problem), USAGE
  end
  if text:sub(1, 4) == "\27Lua" then
    return nil, ("'%s' is Lua bytecode, and only text is run; give the source it was compiled from"):format(path), USAGE
  end
  local chunk, syntax = load(without_shebang(text), "@" .. path, "t")
  if not chunk then return nil, syntax .. " (a syntax error; nothing was run)", FAILED end
  return chunk
end

return source
