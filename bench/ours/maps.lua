-- maps.lua: which files this process has mapped.
for line in io.lines("/proc/self/maps") do print(line) end
