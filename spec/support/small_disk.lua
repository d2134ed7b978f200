-- A real disk that is soon full, for specs: a script runs in a mount namespace of its own, where $DIR/disk is a file
-- system of that size. Not every machine lets us mount: ask first, and leave the case pending.
--
--   if not small_disk.is_possible then return pending "..." end
--   local output, code = small_disk.run(folder, "$SYNOD run --store embedded:$DIR/disk/s.db $DIR/x.lua", "4m")

local sh = require "spec.support.sh"

local small_disk = {}

small_disk.is_possible = select(2, sh.run("unshare -rm true")) == 0

---@param folder spec.Folder
---@param script string
---@param size string  as mount(8) takes it: "4m"
---@return string output
---@return integer code
function small_disk.run(folder, script, size)
  local mount = ("mkdir -p $DIR/disk && mount -t tmpfs -o size=%s none $DIR/disk && "):format(size)
  return sh.run("unshare -rm sh -c " .. sh.quote(mount .. script), { dir = folder.path })
end

return small_disk
