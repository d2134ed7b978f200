-- report.lua: a figure beside its peer, for people and for programs.

local json = require "cjson"
local series = require "harness.series"

---@class bench.Figure
---@field bench string the benchmark it belongs to
---@field name string what was measured
---@field unit string
---@field ours number[] one value for each round
---@field peer? number[] the same of the peer, in the same rounds
---@field peer_name? string
---@field peers? { [1]: string, [2]: number[]|nil }[] several, by name, in place of one; nil: it was left out
---@field aim? bench.Aim
---@field note? string

---@class bench.Aim
---@field ratio? boolean it bounds ours / peer, else ours
---@field most? number
---@field least? number

local report = { print = print, figures = 0, aims = 0, missed = {} }

local function shown(value)
  local size = math.abs(value)
  if size < 1000 and value == math.floor(value) then return ("%d"):format(value) end
  if size >= 1000 then return (("%.0f"):format(value):reverse():gsub("(%d%d%d)(%d)", "%1,%2"):reverse()) end
  return (size >= 100 and "%.0f" or size >= 10 and "%.1f" or size >= 0.1 and "%.2f" or "%.3f"):format(value)
end

local function spread(values)
  local s = series.summary(values)
  if s.n == 1 then return shown(s.median) end
  return ("%s [%s - %s]"):format(shown(s.median), shown(s.min), shown(s.max))
end

--- Thousands of thousands need a second comma: done until nothing changes.
local function grouped(text)
  local before
  repeat
    before = text
    text = text:gsub("(%d)(%d%d%d),", "%1,%2,")
  until text == before
  return text
end

---@param figure bench.Figure
---@return number? ratio, boolean? met
local function judge(figure)
  local ratio = figure.peer and series.median(series.ratios(figure.ours, figure.peer)) or nil
  local aim = figure.aim
  if not aim then return ratio, nil end
  local value = aim.ratio and ratio or series.median(figure.ours)
  return ratio, (not aim.most or value <= aim.most) and (not aim.least or value >= aim.least)
end

local function aim_text(figure)
  local aim = figure.aim
  local bound = aim.most and ("at most %s"):format(shown(aim.most)) or ("at least %s"):format(shown(aim.least))
  return bound .. (aim.ratio and " times the peer" or " " .. figure.unit)
end

local function print_text(figure, ratio, met)
  local line = ("  %-46s %s"):format(figure.name .. ", " .. figure.unit, grouped(spread(figure.ours)))
  if figure.peer then
    line = ("%-84s %s %s"):format(line, figure.peer_name, grouped(spread(figure.peer)))
    line = line .. ("   ratio %s"):format(shown(ratio))
  end
  report.print(line)
  if figure.aim then report.print(("      %s: aim %s"):format(met and "met" or "MISSED", aim_text(figure))) end
  if figure.note then report.print("      " .. figure.note) end
end

local function print_json(figure, ratio, met)
  report.print(json.encode {
    bench = figure.bench, figure = figure.name, unit = figure.unit, ours = series.summary(figure.ours),
    peer = figure.peer and series.summary(figure.peer), peer_name = figure.peer_name, ratio = ratio,
    aim = figure.aim and aim_text(figure), met = met, note = figure.note,
  })
end

--- A line for each peer that was measured; the aim is judged once.
local function show_beside_each(figure)
  local one = {}
  for key, value in pairs(figure) do one[key] = value end
  one.peers = nil
  local is_shown = false
  for i = 1, #figure.peers do
    one.peer_name, one.peer = table.unpack(figure.peers[i], 1, 2)
    if one.peer then
      report.show(one)
      one.aim, one.note, is_shown = nil, nil, true
    end
  end
  if not is_shown then
    one.peer_name = nil
    report.show(one)
  end
end

--- Prints a figure and remembers whether its aim was met.
---@param figure bench.Figure
function report.show(figure)
  if figure.peers then return show_beside_each(figure) end
  local ratio, met = judge(figure)
  report.figures = report.figures + 1
  if met ~= nil then report.aims = report.aims + 1 end
  if met == false then table.insert(report.missed, figure.bench .. ": " .. figure.name) end
  local form = report.json and print_json or print_text
  form(figure, ratio, met)
  io.stdout:flush()
end

--- Says that something was not measured, and why.
---@param bench string
---@param why string
function report.skip(bench, why)
  report.print(report.json and json.encode { bench = bench, left_out = why } or "  left out: " .. why)
end

---@param title string
function report.title(title)
  if not report.json then report.print("\n" .. title) end
end

--- The last words: which aims were missed.
function report.finish()
  if report.json or report.figures == 0 then return end
  report.print(("\n%d figures, %d aims, %d missed"):format(report.figures, report.aims, #report.missed))
  for _, name in ipairs(report.missed) do report.print("  " .. name) end
end

return report
