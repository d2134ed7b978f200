-- What the benchmarks say of their figures: the middle, the ratio round by round, and whether an aim was met.

local json = require "cjson"

local path = package.path

--- The report, made anew, and the lines that it prints.
local function fresh()
  package.loaded["harness.report"] = nil
  local report, lines = require "harness.report", {}
  report.print = function(line) lines[#lines + 1] = line end
  return report, lines
end

local function figure(ours, peer, aim)
  return { bench = "start", name = "wall", unit = "ms", ours = ours, peer = peer, peer_name = "lua5.4", aim = aim }
end

describe("the benchmarks' report", function()
  setup(function() package.path = "bench/?.lua;" .. path end)
  teardown(function() package.path = path end)

  it("takes the middle of the values, whatever their order", function()
    local series = require "harness.series"
    assert.equal(2, series.median { 9, 1, 2 })
    assert.equal(2.5, series.median { 4, 1, 2, 3 })
    assert.same({ median = 5, min = 1, max = 9, n = 3 }, series.summary { 5, 9, 1 })
  end)

  it("measures by turns and does not count the first round", function()
    local series, order = require "harness.series", {}
    local function measure(name)
      return { name, function()
        order[#order + 1] = name
        return { ms = #order }
      end }
    end
    local all = series.by_turns(2, { measure "a", measure "b" }, function() end)
    assert.equal("a b a b a b", table.concat(order, " "))
    assert.same({ a = { ms = { 3, 5 } }, b = { ms = { 4, 6 } } }, all)
  end)

  it("counts every round where there is nothing to warm up", function()
    local series = require "harness.series"
    local n = 0
    local all = series.by_turns(2, { { "a", function()
      n = n + 1
      return { ms = n }
    end } }, function() end, true)
    assert.same({ a = { ms = { 1, 2 } } }, all)
  end)

  it("says what was left out, for people and for programs", function()
    local report, lines = fresh()
    report.skip("locks", "etcd is not installed")
    report.json = true
    report.skip("locks", "etcd is not installed")
    assert.equal("  left out: etcd is not installed", lines[1])
    assert.same({ bench = "locks", left_out = "etcd is not installed" }, json.decode(lines[2]))
  end)

  it("compares each value with the peer's of the same round", function()
    local report, lines = fresh()
    report.json = true
    report.show(figure({ 2, 40, 3 }, { 1, 20, 1 }, { ratio = true, most = 2 })) -- a machine that was slow once
    local shown = json.decode(lines[1])
    assert.equal(2, shown.ratio)
    assert.is_true(shown.met)
    assert.same({ median = 3, min = 2, max = 40, n = 3 }, shown.ours)
  end)

  it("shows a line for each peer that is there, and judges the aim once", function()
    local report, lines = fresh()
    local shown = figure({ 4 }, nil, { most = 3 })
    shown.peers = { { "etcd", nil }, { "redis", { 2 } }, { "ZooKeeper", { 8 } } }
    report.show(shown)
    assert.equal(3, #lines)
    assert.truthy(lines[1]:find("redis 2   ratio 2", 1, true))
    assert.truthy(lines[2]:find("MISSED", 1, true))
    assert.truthy(lines[3]:find("ZooKeeper 8   ratio 0.50", 1, true))
    shown.peers = { { "etcd", nil } }
    report.show(shown)
    assert.equal(5, #lines)
    assert.equal(2, report.aims)
  end)

  it("says that an aim was missed, of the ratio or of the figure itself", function()
    for _, case in ipairs {
      { { ratio = true, most = 1.9 }, false }, { { ratio = true, most = 2 }, true },
      { { ratio = true, least = 2 }, true }, { { ratio = true, least = 2.1 }, false },
      { { most = 3 }, false }, { { most = 4 }, true }, { { least = 4 }, true }, { { least = 5 }, false },
    } do
      local report, lines = fresh()
      report.show(figure({ 4 }, { 2 }, case[1]))
      assert.equal(case[2], not lines[2]:find("MISSED", 1, true), lines[2])
      assert.equal(case[2] and 0 or 1, #report.missed)
      report.finish()
      assert.equal(("\n1 figures, 1 aims, %d missed"):format(#report.missed), lines[3])
    end
  end)

  it("writes large numbers in groups and small ones with their digits", function()
    local report, lines = fresh()
    report.show(figure({ 1234567, 1234567, 1234567 }))
    report.show(figure({ 0.0123 }))
    assert.truthy(lines[1]:find("1,234,567 [1,234,567 - 1,234,567]", 1, true), lines[1])
    assert.truthy(lines[2]:find("0.012", 1, true), lines[2])
  end)
end)
