-- What a script may do with Lua's own libraries, inside the program and the simulator.
--
-- Scripts are trusted; this guards against what would break the runtime. `debug` keeps traceback and getinfo (its hooks
-- belong to the runtime), and what is loaded must be text (bytecode can crash the interpreter).

local sandbox = {}

local function text_only(mode, level)
  if mode ~= nil and mode ~= "t" and mode ~= "bt" then
    error("only Lua text can be loaded here: the mode must be 't'", level + 1)
  end
  return "t"
end

-- An absent environment is not the same as nil: it stands for the globals.
local function loaders(plain)
  local function load(chunk, name, mode, ...) return plain.load(chunk, name, text_only(mode, 2), ...) end

  local function loadfile(path, mode, ...) return plain.loadfile(path, text_only(mode, 2), ...) end

  -- In Lua, so that what the file does may wait.
  local function dofile(path)
    local chunk, problem = plain.loadfile(path, "t")
    if not chunk then error(problem, 2) end
    return chunk()
  end

  return load, loadfile, dofile
end

--- Replaces the functions of these globals.
---@param globals table  the _G of the state
function sandbox.apply(globals)
  globals.load, globals.loadfile, globals.dofile = loaders { load = globals.load, loadfile = globals.loadfile }
  for name in next, globals.debug do
    if name ~= "traceback" and name ~= "getinfo" then globals.debug[name] = nil end
  end
end

return sandbox
