-- Answers of stores as texts that are equal when the answers mean the same.
--
--   local names = answers.names()                              one for each store
--   answers.text(names, table.pack(pcall(...)), { tag = "w", live = false })

local answers = {}

local TIMES = { last_modified = true, inserted = true, expires = true, next_visible = true, timestamp = true }
local IDENTITIES = { etag = true, id = true, receipt = true }

--- What a store has called things: in the order in which they came, and how often an ETag was given to a write.
function answers.names()
  return { order = {}, list = {}, given = {} }
end

--- Forgets all but the first so many: the answer of only one store had them.
function answers.forget(names, count)
  for i = count + 1, #names.list do names.order[names.list[i]], names.list[i] = nil, nil end
end

--- The emulator makes the ETags of entities from a clock that is too coarse at times: one that it gave to two writes is
--- no use. See spec/azure/differences.lua.
function answers.note_write(names, etag)
  names.given[etag] = (names.given[etag] or 0) + 1
end

function answers.is_shared(names, etag)
  return (names.given[etag] or 0) > 1
end

local function identity(names, value, live)
  if live and value:find "^W/" then return "W/" end
  if not names.order[value] then
    names.list[#names.list + 1] = value
    names.order[value] = #names.list
  end
  return "#" .. names.order[value]
end

local shown

local function field(names, name, value, how)
  if name == "queue" then return nil end
  if how.live and (TIMES[name] or name == "receipt") then return name end
  if how.live and name == "metadata" and not next(value) then return nil end
  if IDENTITIES[name] and type(value) == "string" then return name .. "=" .. identity(names, value, how.live) end
  if name == "name" and type(value) == "string" then return "name=" .. value:gsub("^" .. how.tag, "") end
  return tostring(name) .. "=" .. shown(names, value, how)
end

local function fields(names, value, how)
  local keys, words = {}, {}
  for key in pairs(value) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b)
    if type(a) == type(b) then return a < b end
    return type(a) == "number"
  end)
  for _, key in ipairs(keys) do words[#words + 1] = field(names, key, value[key], how) end
  return "{" .. table.concat(words, " ") .. "}"
end

function shown(names, value, how)
  if type(value) == "userdata" then
    local text = tostring(value)
    if text:find "^lease of" then return "lease " .. identity(names, value.id, how.live) end
    return value.type .. " " .. text
  end
  if type(value) ~= "table" then return (math.type(value) or type(value)) .. " " .. tostring(value) end
  return fields(names, value, how)
end

local function refusal(err)
  if type(err) ~= "table" then return tostring(err) end
  return ("%s %s%s"):format(err.code, err.status, err.index and " at " .. err.index or "")
end

--- The outcome of a call under pcall.
---@param names table
---@param outcome table
---@param how { tag: string, live: boolean? }
---@return string
function answers.text(names, outcome, how)
  if not outcome[1] then return "raised " .. refusal(outcome[2]) end
  if outcome[2] == nil then return refusal(outcome[3]) end
  local words = {}
  for i = 2, outcome.n do words[#words + 1] = shown(names, outcome[i], how) end
  return table.concat(words, ", ")
end

return answers
