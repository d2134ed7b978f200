-- synod explain SCRIPT: what the policies of a script promise and cost, with the settings that it uses.
--
-- The script runs here for an hour of a clock that jumps, over an empty store in memory, so that it makes its policies.
-- What it would do outside is not done: commands, requests, connections and files to be written are refused.

local common = require "cli.common"
local options = require "cli.options"

local explain = {
  summary = "say what a script's policies promise and cost, with the settings in use",
  usage = { "[OPTIONS] SCRIPT [ARG...]" },
  stop = true,
  virtual = true,
  options = common.join(common.instance, {
    { name = "json", meaning = "one object for each policy, a line each" },
  }),
  notes = "The script is run for an hour of a virtual clock, as the only instance (or as --instance and --instances "
    .. "say), over an empty store in memory. Commands, "
    .. "requests, connections and files to be written are refused meanwhile; nothing is printed but what is found.",
}

local HOUR_S = 3600

local function refused(what)
  return function()
    local core = require "synod.core"
    return nil, core.new_error {
      code = "Unsupported", operation = what, message = "synod explain does nothing outside of the script",
    }
  end
end

--- Whatever would be seen outside.
local function close_doors()
  local synod, open, output = require "synod", io.open, io.output
  for _, name in ipairs { "exec", "http", "connect" } do rawset(synod, name, refused("synod." .. name)) end
  require("synod.exec").exec = refused "synod.exec"
  require("synod.net").connect = refused "synod.connect"
  local deaf = setmetatable({ address = "127.0.0.1:0", close = function() end }, { __close = function() end })
  rawset(synod, "listen", function() return deaf end)
  require("synod.net").listen = synod.listen
  for _, name in ipairs { "execute", "remove", "rename" } do rawset(os, name, refused("os." .. name)) end
  rawset(io, "popen", refused "io.popen")
  rawset(io, "open", function(path, mode)
    if mode and mode:find "[wa+]" then return nil, path .. ": not written by synod explain" end
    return open(path, mode)
  end)
  rawset(io, "output", function(target)
    if type(target) == "string" then error(target .. ": not written by synod explain", 2) end
    return output(target)
  end)
  require("synod.io").install = function(globals)
    local nowhere = open("/dev/null", "w")
    globals.io.stdout, globals.io.stderr = nowhere, nowhere
    globals.io.output(nowhere)
    globals.print = function() end
  end
  require("synod.store").open = function() return require("synod.core").open_store "memory:" end
end

local function seconds(s)
  if s >= 10 then return ("%.1f s"):format(s) end
  if s >= 0.1 then return ("%.2f s"):format(s) end
  return ("%.0f ms"):format(s * 1000)
end

local function count(n)
  return (tostring(n):reverse():gsub("%d%d%d", "%0,"):reverse():gsub("^,", ""))
end

--- When one who waits learns that it is free, by what tells him.
local TOLD = {
  hints = "at once on the embedded store and with hints; else ", store = "at once on the embedded store; else ",
  nothing = "",
}

local function lease_lines(lines, l)
  local function add(what, ...) lines[#lines + 1] = ("  %-26s %s"):format(what, (...):format(select(2, ...))) end
  add("lease", "%s, %s", seconds(l.ttl), l.kind == "record" and "a record kept by conditional writes"
    or "the service's")
  add("taken over after a crash", "in %s to %s; among the instances of one synod run at %s",
    seconds(l.takeover_min), seconds(l.takeover_max), l.told == "hints" and "once" or "the next look")
  add("handed over when resigned", TOLD[l.told] .. "in %s", seconds(l.look))
  add("the body is stopped", "%s after the last renewal was sent, clean-up until %s", seconds(l.soft), seconds(l.hard))
  add("one holder while", "pauses once the stop is due stay below P = %s, clocks differ by less than",
    seconds(l.slice))
  add("", "rho = 1 %% (%s), no request lives longer than R = %s; beyond that fences decide",
    seconds(l.drift), seconds(l.request))
end

local function text_of(note, f)
  local lines = { ("%s '%s'"):format(note.policy, note.name) }
  if f.lease then lease_lines(lines, f.lease) end
  if f.holder or f.waiter then
    local parts = {}
    if f.holder then parts[#parts + 1] = ("%s of who holds"):format(count(f.holder)) end
    if f.waiter then
      parts[#parts + 1] = ("%s of each who waits (%s with hints)"):format(count(f.waiter), count(f.hinted))
    end
    lines[#lines + 1] = ("  %-26s %s"):format("transactions a month", table.concat(parts, ", "))
  end
  return table.concat(lines, "\n")
end

local function json_of(note, f)
  local l = f.lease or {}
  local fields = {
    { "policy", note.policy }, { "name", tostring(note.name) }, { "kind", l.kind }, { "ttl", l.ttl },
    { "soft", l.soft }, { "hard", l.hard }, { "P", l.slice }, { "rho", l.kind and l.drift / l.ttl }, { "R", l.request },
    { "takeover_min", l.takeover_min }, { "takeover_max", l.takeover_max }, { "holder_month", f.holder },
    { "waiter_month", f.waiter }, { "hinted_month", f.hinted },
  }
  local words = {}
  for _, field in ipairs(fields) do
    local value = field[2]
    if value ~= nil then
      local text = type(value) == "string" and require("synod.core").log_quote(value) or ("%.14g"):format(value)
      words[#words + 1] = ('"%s":%s'):format(field[1], text)
    end
  end
  return "{" .. table.concat(words, ",") .. "}"
end

--- Runs the script and the tasks that it leaves, which make policies too, until the hour is over.
local function run_hour(script)
  local core = require "synod.core"
  local ends = core.now() + HOUR_S
  require("synod").timeout(HOUR_S, script)
  core.sleep(math.max(0, ends - core.now()))
end

---@param parsed table
---@return integer exit_code
function explain.run(parsed)
  local script = parsed.args[1]
  if not script then return options.refuse("no script given: synod explain SCRIPT [ARG...]", "explain") end
  local chunk, problem, code = require("cli.source").load(script)
  if not chunk then
    io.stderr:write("synod: ", problem, "\n")
    return code
  end
  parsed.instances, parsed.deployment = parsed.instances or 1, parsed.deployment or "explain"
  parsed.instance = parsed.instance or require("cli.instance").role_of(script) .. "_IN_0"
  local who, wrong = require("cli.instance").of(parsed, script)
  if not who then return options.refuse(wrong, "explain") end
  local plan, stdout, stderr = require "synod.plan", io.stdout, io.stderr
  require("synod.core").log_configure { level = "error", instance = who.id }
  close_doors()
  require("synod.store").configure "memory:"
  local notes, ok, err = plan.collect(function()
    run_hour(function() require("cli.run").here(chunk, { args = parsed.args, log_level = "error" }, who) end)
  end)
  if #notes == 0 and not ok then error(err, 0) end
  for i, note in ipairs(notes) do
    if parsed.json then
      stdout:write(json_of(note, plan.of(note)), "\n")
    else
      stdout:write(i > 1 and "\n" or "", text_of(note, plan.of(note)), "\n")
    end
  end
  if #notes == 0 then
    stderr:write("synod: ", script, " made no policy in an hour of a virtual clock: there is nothing to explain\n")
  end
  require("synod.core").exit(0) -- whatever the script's tasks are at
end

return explain
