-- Runs the cases of spec/support/lease_cases.lua: in a store, or by the rules alone.
--
--   steps.in_store(store, case, "blob", slack)    its outcomes; `slack` seconds are added to each wait
--   rules:answers(cases)                          the outcomes of each, from a program made of the rules

local core = require "synod.core"
local sh = require "spec.support.sh"

local steps = {}

local IDS = {
  A = "aaaaaaaa-0000-4000-8000-00000000000a",
  B = "{BBBBBBBB-0000-4000-8000-00000000000B}",
  C = "cccccccc00004000800000000000000c",
}

--- A refusal's code and status; else `well`, or what was given.
local function said(well, value, err)
  if value == nil then return ("%s %s"):format(err.code, err.status or "without an answer") end
  return well or value
end

local actions = {}

function actions.acquire(s, id, seconds)
  return said("201", s.place:lease { id = IDS[id], duration = math.tointeger(tonumber(seconds)) })
end
function actions.renew(s, id) return said("200", core.lease_handle(s.place, IDS[id]):renew()) end
function actions.release(s, id) return said("200", core.lease_handle(s.place, IDS[id]):release()) end
function actions.change(s, id, new) return said("200", core.lease_handle(s.place, IDS[id]):change(IDS[new])) end

actions["break"] = function(s, period)
  local left, err = s.place:break_lease(math.tointeger(tonumber(period)))
  return left and ("202 %d"):format(left) or said(nil, left, err)
end

function actions.wait(s, seconds)
  core.sleep(tonumber(seconds) + s.slack)
  return "ok"
end

function actions.state(s)
  local p = assert(s.place:head())
  for item in s.list(s) do
    for _, field in ipairs { "lease_state", "lease_status", "lease_duration", "etag" } do
      if item[field] ~= p[field] then return "the list says otherwise: " .. tostring(item[field]) end
    end
  end
  return p.lease_state .. " " .. p.lease_status .. (p.lease_duration and " " .. p.lease_duration or "")
end

function actions.read(s, how, id)
  return said("ok", s.place[how](s.place, { lease = IDS[id] }))
end

function actions.write(s, how, id)
  if how == "metadata" then return said("ok", s.place:set_metadata({ a = "1" }, { lease = IDS[id] })) end
  return said("ok", s.place:put("x", { lease = IDS[id], if_none_match = how == "create" and "*" or nil }))
end

function actions.delete(s, _, id)
  return said("ok", s.place:delete { lease = IDS[id] })
end

local count = 0

---@param store synod.Store
---@param case table
---@param where "blob"|"container"
---@param slack? number
---@return string[] answers
---@return number late  seconds that it took longer than its waits
function steps.in_store(store, case, where, slack)
  count = count + 1
  local container = store:container(("lease-%d-%d"):format(count, os.time()))
  assert(container:create())
  local blob = container:blob "leased"
  assert(blob:put "")
  local s = { slack = slack or 0, place = where == "blob" and blob or container }
  function s.list()
    if where == "blob" then return container:list() end
    return store:containers { prefix = tostring(container):match "%S+$" }
  end
  local answers, began, waits = {}, core.now(), 0
  for i, step in ipairs(case.steps) do
    local what, first, second = step:match "^(%S+) ?(%S*) ?(%S*)$"
    answers[i] = actions[what](s, first, second)
    if what == "wait" then waits = waits + tonumber(first) + s.slack end
  end
  return answers, core.now() - began - waits
end

-- the rules alone

---@class spec.LeaseRules
---@field folder spec.Folder
local rules_type = {}
rules_type.__index = rules_type

local COMPILE = "${CC:-cc} -std=c11 -D_GNU_SOURCE -Iruntime "

local function must(command, options)
  local output, code = sh.run(command, options)
  assert(code == 0, output)
  return output
end

--- Compiles what the rules stand on. Close it.
---@return spec.LeaseRules
function steps.rules()
  local self = setmetatable({ folder = sh.folder() }, rules_type)
  must(COMPILE .. "-c spec/support/lease_rules.c -o $DIR/main.o && " .. COMPILE
    .. "-c runtime/store/request.c -o $DIR/request.o && " .. COMPILE
    .. "-c runtime/store/props.c -o $DIR/props.o && for f in runtime/base/*.c; do " .. COMPILE
    .. "-c $f -o $DIR/base-$(basename $f .c).o || exit 1; done", { dir = self.folder.path })
  return self
end

function rules_type:close() self.folder:close() end

--- The outcomes of each case; `text` stands for runtime/store/lease_rules.c. Nil when it does not compile.
---@param list table[]
---@param text string
---@return string[][]|nil answers, string? problem
function rules_type:answers(list, text)
  self.folder:write("rules.c", text)
  local lines = {}
  for _, case in ipairs(list) do
    lines[#lines + 1] = "case"
    for _, step in ipairs(case.steps) do lines[#lines + 1] = step end
  end
  self.folder:write("steps", table.concat(lines, "\n") .. "\n")
  local output, code = sh.run(COMPILE .. "$DIR/rules.c $DIR/*.o -o $DIR/rules && $DIR/rules <$DIR/steps",
    { dir = self.folder.path })
  if code ~= 0 then return nil, output end
  local answers, next_line = {}, output:gmatch "[^\n]+"
  for i, case in ipairs(list) do
    answers[i] = {}
    for j = 1, #case.steps do answers[i][j] = next_line() end
  end
  return answers
end

--- The seconds left that two outcomes of a break tell differ by so many.
local function difference(expected, answer)
  local more, less = expected:match "^202 (%d+)$", tostring(answer):match "^202 (%d+)$"
  return more and less and more - less or math.huge
end

--- "renew B | expired: renew B: LeaseLost 412, expected 200" for each step that came to something else. Where time has
--- passed meanwhile a break may tell up to `late` seconds less.
---@param case table
---@param answers string[]
---@param late? integer
---@return string[]
function steps.faults(case, answers, late)
  local found = {}
  for i, step in ipairs(case.steps) do
    local less = difference(case.expected[i], answers[i])
    if answers[i] ~= case.expected[i] and not (less >= 0 and less <= (late or 0)) then
      found[#found + 1] = ("%s: %s: %s, expected %s"):format(case.name, step, answers[i], case.expected[i])
    end
  end
  return found
end

return steps
