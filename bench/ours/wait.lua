-- wait.lua: an instance that waits so many seconds and does nothing.
require("synod").sleep(tonumber(arg[1]))
