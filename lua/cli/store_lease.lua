-- synod store lease show|break|release: look at a lease by hand, and end one.

local core = require "synod.core"
local show = require "cli.show"

local FIELDS = { "lease_state", "lease_status", "lease_duration" }

local lease = {}

local function print_result(parsed, value, text)
  io.write(parsed.json and show.json(value) .. "\n" or text)
end

function lease.show(place, parsed, tools)
  local props = tools.must(place:head { timeout = parsed.timeout })
  local value, fields = { name = parsed.args[3] }, {}
  for _, field in ipairs(FIELDS) do
    value[field] = props[field]
    if props[field] then fields[#fields + 1] = { field, props[field] } end
  end
  print_result(parsed, value, show.fields(fields))
end

--- Whoever held it may still write for so many seconds: that is what a person has to know.
lease["break"] = function(place, parsed, tools)
  local period = parsed.period and math.tointeger(parsed.period)
  if parsed.period and not (period and period >= 0 and period <= 60) then
    tools.wrong("--period: a break takes 0 to 60 whole seconds")
  end
  local left = tools.must(place:break_lease(period, { timeout = parsed.timeout }))
  local text = left == 0 and "the lease is broken\n"
    or ("the lease is broken in %d s; until then its holder may write\n"):format(left)
  print_result(parsed, { name = parsed.args[3], seconds = left }, text)
end

function lease.release(place, parsed, tools)
  if not parsed.id then tools.wrong "lease release: --id is missing; without it, use lease break" end
  local ok, held = pcall(core.lease_handle, place, parsed.id)
  if not ok then tools.wrong("--id: '%s' is no GUID", parsed.id) end
  tools.must(held:release { timeout = parsed.timeout })
  print_result(parsed, { name = parsed.args[3], released = true }, "")
end

--- `tools`: place(text), wrong(...) and must(...) of synod store.
---@param parsed table
---@param tools table
function lease.run(parsed, tools)
  local what, name, more = parsed.args[2], parsed.args[3], parsed.args[4]
  if what ~= "show" and what ~= "break" and what ~= "release" then
    tools.wrong("store lease: say show, break or release%s", what and ", not '" .. what .. "'" or "")
  end
  if not name then tools.wrong("store lease %s: CONTAINER[/BLOB] is missing", what) end
  if more then tools.wrong("store lease %s: unexpected argument '%s'", what, more) end
  lease[what](tools.place(name), parsed, tools)
end

return lease
