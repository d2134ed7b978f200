-- synod run --usage: what the run asked its stores for, and what that would cost.
--
-- Told at the very end, when every store is closed and the last attempt is counted: main.c calls `at_end`, outside of
-- the run, and prints on standard error what it gives. Of several instances each adds its counts to a file without a
-- name that it has from the supervisor (SYNOD_USAGE_FD), in one write; the supervisor reads it when all have ended.

local core = require "synod.core"
local percent = require "synod.percent"
local prices = require "cli.prices"
local process = require "cli.process"
local show = require "cli.show"

local usage = {}

local OUTCOMES = { "done", "refused", "denied", "throttled", "failed", "lost", "unsent" }
local MONTH_S = 30 * 24 * 60 * 60
local SHORT_S = 60 -- a run below this says little about a month

---@alias cli.Counts table<string, table<string, table<string, integer>>>  by store, operation and outcome

-- ---- counts as lines, between processes ----

---@param counts cli.Counts
---@return string
local function as_lines(counts)
  local lines = { "instance" }
  for store, operations in next, counts do
    for operation, outcomes in next, operations do
      for outcome, n in next, outcomes do
        lines[#lines + 1] = ("%s %s %d %s"):format(operation, outcome, n, percent.encode(store, "[%c%%]"))
      end
    end
  end
  return table.concat(lines, "\n") .. "\n"
end

---@return cli.Counts counts, integer instances
local function from_lines(text)
  local counts, instances = {}, 0
  for line in text:gmatch("[^\n]+") do
    local operation, outcome, n, store = line:match("^(%a+) (%a+) (%d+) (.+)$")
    if operation then
      store = percent.decode(store)
      counts[store] = counts[store] or {}
      counts[store][operation] = counts[store][operation] or {}
      local outcomes = counts[store][operation]
      outcomes[outcome] = (outcomes[outcome] or 0) + math.tointeger(tonumber(n))
    elseif line == "instance" then
      instances = instances + 1
    end
  end
  return counts, instances
end

-- ---- sums ----

local function sorted(t)
  local names = {}
  for name in next, t do names[#names + 1] = name end
  table.sort(names)
  return names
end

---@return table sums total, monthly, cost
local function sums_of(operation, outcomes, seconds, from)
  local total, billed = 0, 0
  for outcome, n in next, outcomes do
    total = total + n
    if not prices.unbilled[outcome] then billed = billed + n end
  end
  local month = seconds > 0 and MONTH_S / seconds or 0
  return { total = total, monthly = total * month, cost = prices.cost(from, operation, billed * month) }
end

-- ---- for people ----

local function number(n)
  local text = ("%.0f"):format(n)
  local grouped
  repeat
    text, grouped = text:gsub("^(%d+)(%d%d%d)", "%1,%2")
  until grouped == 0
  return text
end

local RIGHT = { TOTAL = true, ["A MONTH"] = true, COST = true }
for _, outcome in ipairs(OUTCOMES) do RIGHT[outcome:upper()] = true end

--- The outcomes that there are, in their order.
local function outcomes_in(operations)
  local seen, list = {}, {}
  for _, outcomes in next, operations do
    for outcome in next, outcomes do seen[outcome] = true end
  end
  for _, outcome in ipairs(OUTCOMES) do
    if seen[outcome] then list[#list + 1] = outcome end
  end
  return list
end

local function table_of(operations, seconds, from)
  local seen, all = outcomes_in(operations), { total = 0, monthly = 0, cost = 0 }
  local heading = { "OPERATION", "CLASS", "TOTAL" }
  for _, outcome in ipairs(seen) do heading[#heading + 1] = outcome:upper() end
  heading[#heading + 1], heading[#heading + 2] = "A MONTH", "COST"
  local rows = {}
  for _, operation in ipairs(sorted(operations)) do
    local sums = sums_of(operation, operations[operation], seconds, from)
    local row = { operation, prices.class[operation] or "?", number(sums.total) }
    for _, outcome in ipairs(seen) do row[#row + 1] = number(operations[operation][outcome] or 0) end
    row[#row + 1], row[#row + 2] = number(sums.monthly), ("%.2f"):format(sums.cost)
    rows[#rows + 1] = row
    for name in next, all do all[name] = all[name] + sums[name] end
  end
  local last = { "all", "", number(all.total) }
  for _ = 1, #seen do last[#last + 1] = "" end
  last[#last + 1], last[#last + 2] = number(all.monthly), ("%.2f"):format(all.cost)
  rows[#rows + 1] = last
  return show.columns(heading, rows, RIGHT)
end

local function as_text(counts, told, seconds, from)
  local parts = {}
  local took = (seconds < 10 and "%.2f s" or "%.0f s"):format(seconds)
  local of = told.expected and (" by %d of %d instances"):format(told.instances, told.expected) or ""
  for _, store in ipairs(sorted(counts)) do
    parts[#parts + 1] = ("synod: requests to %s in %s%s\n"):format(store, took, of)
    parts[#parts + 1] = table_of(counts[store], seconds, from)
  end
  if #parts == 0 then return ("synod: no store was asked for anything in %s%s\n"):format(took, of) end
  parts[#parts + 1] = ("An estimate for 30 days at this rate%s.\nCost in %s by prices of %s, %s.\n"):format(
    seconds < SHORT_S and ", from a run too short to say much" or "", from.currency, from.date, from.region)
  return table.concat(parts)
end

-- ---- for programs ----

local function as_json(counts, told, seconds, from)
  local stores = {}
  for store, operations in next, counts do
    local rows = {}
    for operation, outcomes in next, operations do
      local row = sums_of(operation, outcomes, seconds, from)
      row.outcomes, row.class = outcomes, prices.class[operation]
      rows[operation] = row
    end
    stores[store] = rows
  end
  return show.json({
    time = core.log_time(), level = "info", instance = process.instance or "synod", task = "main",
    message = "usage",
    fields = {
      seconds = seconds, instances = told.instances, expected = told.expected, stores = stores,
      prices = { date = from.date, region = from.region, currency = from.currency },
    },
  }) .. "\n"
end

-- ---- at the end ----

--- Where supervised instances are to add their counts; nil, when this is none of them.
local function inherited()
  return math.tointeger(tonumber(os.getenv("SYNOD_USAGE_FD")))
end

--- Has the usage told when the run has ended.
---@param parsed table           what the command line said
---@param shared? integer        of a supervisor: the descriptor that its instances have
---@return string|nil problem
function usage.tell_at_end(parsed, shared)
  local fd = not shared and inherited()
  if fd then
    process.at_end = function() core.report_add(fd, as_lines(core.usage())) end
    return nil
  end
  local from, problem = prices.example, nil
  if parsed.prices then from, problem = prices.load(parsed.prices) end
  if not from then return problem end
  local form = parsed.log_format == "json" and as_json or as_text
  process.at_end = function(seconds)
    if not shared then return form(core.usage(), { instances = 1 }, seconds, from) end
    local counts, instances = from_lines(core.report_read(shared))
    return form(counts, { instances = instances, expected = parsed.n }, seconds, from)
  end
end

return usage
