-- Real processes for specs: a shell runs the real program, and its whole output and exit code come back.
--
--     local sh = require "spec.support.sh"
--     local output, code = sh.run [[ $SYNOD run "$DIR/x.lua"; ]]
--     local folder <close> = sh.folder()            -- removed at the end of the block
--     folder:write("x.lua", "print(1)")

local sh = {}

--- The program under test.
sh.synod = os.getenv("SYNOD_BIN") or "build/synod"

local function quote(text)
  return "'" .. text:gsub("'", "'\\''") .. "'"
end
sh.quote = quote

--- Runs a shell script, with $SYNOD the program and $DIR the folder given; standard error comes with the output.
---@param script string
---@param options? { dir?: string, env?: table<string, string>, timeout?: number }  seconds, default 60
---@return string output
---@return integer code  124 when the time was over
function sh.run(script, options)
  options = options or {}
  local words = { "SYNOD=" .. quote(sh.synod), "DIR=" .. quote(options.dir or ".") }
  for name, value in pairs(options.env or {}) do
    words[#words + 1] = name .. "=" .. quote(value)
  end
  local command = ("%s timeout -k 1 %g sh -c %s 2>&1 </dev/null"):format(
    table.concat(words, " "), options.timeout or 60, quote(script))
  local pipe <close> = assert(io.popen(command))
  local output = pipe:read("a")
  local _, _, code = pipe:close()
  return output, code
end

--- Lines of shell: then `preloaded COMMAND ...` runs it with this source of spec/support before its libraries.
---@param source string
---@return string
function sh.preload(source)
  return ([[
    cc -shared -fPIC -o "$DIR/preloaded.so" spec/support/%s || exit
    preloaded() {
      env ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0 LD_PRELOAD="$DIR/preloaded.so" "$@"
    }
  ]]):format(source)
end

---@class spec.Folder
---@field path string
local folder_type = {}
folder_type.__index = folder_type

---@param name string
---@param text string
---@return string path
function folder_type:write(name, text)
  local path = self.path .. "/" .. name
  local file <close> = assert(io.open(path, "w"))
  file:write(text)
  return path
end

---@return string|nil text
function folder_type:read(name)
  local file <close> = io.open(self.path .. "/" .. name)
  return file and file:read("a")
end

function folder_type:close()
  os.execute("rm -rf " .. quote(self.path))
end
folder_type.__close = folder_type.close

--- A new temporary folder; close it to remove it.
---@return spec.Folder
function sh.folder()
  local pipe <close> = assert(io.popen("mktemp -d"))
  return setmetatable({ path = pipe:read("l") }, folder_type)
end

return sh
