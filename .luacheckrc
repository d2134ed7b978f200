-- What luacheck allows here: Lua 5.4, and the words of busted in specs.
std = "lua54"
max_line_length = 120
ignore = { "581" } -- `not (x > 0)` is not `x <= 0` when x is no number
exclude_files = { "build", "node_modules" }
files["spec"] = { std = "+busted" }
files[".busted"] = { ignore = { "" } }
files[".luacheckrc"] = { ignore = { "" } }
