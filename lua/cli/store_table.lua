-- synod store table ls: the tables of a store, or the entities of one.

local show = require "cli.show"

local store_table = {}

--- A property as JSON can say it: times, GUIDs and binary as their texts.
local function plain(value)
  if type(value) == "userdata" then return value.type == "int32" and value.value or tostring(value) end
  return value
end

local KEYS = { partition = true, row = true, etag = true, timestamp = true }

--- "name=value" of each property, in the order of their names.
local function properties(entity)
  local words = {}
  for name, value in pairs(entity) do
    if not KEYS[name] then
      words[#words + 1] = name .. "=" .. (math.type(value) == "float" and show.number(value) or tostring(value))
    end
  end
  table.sort(words)
  return table.concat(words, " ")
end

local function print_tables(s, parsed)
  for item in s:tables { timeout = parsed.timeout } do
    io.write(parsed.json and show.json { name = item.name } or item.name, "\n")
  end
end

local function print_entities(s, parsed, text)
  local name, partition = text:match("^([^/]*)/?(.*)$")
  local rows = {}
  for e in s:table(name):query {
    partition = partition ~= "" and partition or nil, filter = parsed.filter, timeout = parsed.timeout,
  } do
    if parsed.json then
      local object = {}
      for field, value in pairs(e) do object[field] = plain(value) end
      io.write(show.json(object), "\n")
    else
      rows[#rows + 1] = { e.partition, e.row, tostring(e.timestamp):sub(1, 19) .. "Z", properties(e) }
    end
  end
  if #rows > 0 then io.write(show.columns({ "PARTITION", "ROW", "TIMESTAMP", "PROPERTIES" }, rows)) end
end

--- What is wrong with the words after `synod store table`, or nil.
---@param args string[]
---@return string|nil
function store_table.fault(args)
  if args[2] ~= "ls" then return "store table: say what to do: ls" end
  if args[4] then return ("store table ls: unexpected argument '%s'"):format(args[4]) end
  if not args[3] then return nil end
  local name = args[3]:match("^[^/]*")
  local fault = require("synod.core").name_fault("table", name)
  if fault then return ("the table name '%s' %s"):format(name, fault) end
  local partition = args[3]:sub(#name + 2)
  if partition:find("[/\\#?%c]") then
    return ("the partition '%s' may hold no control character and none of / \\ # ?"):format(partition)
  end
end

---@param s synod.Store
---@param parsed table
function store_table.run(s, parsed)
  if parsed.args[3] then
    print_entities(s, parsed, parsed.args[3])
  else
    print_tables(s, parsed)
  end
end

return store_table
