-- series.lua: repeated measurements, and what can be said of them.

local series = {}

---@param values number[]
---@return number
function series.median(values)
  local sorted = table.move(values, 1, #values, 1, {})
  table.sort(sorted)
  local middle = #sorted // 2
  if #sorted % 2 == 1 then return sorted[middle + 1] end
  return (sorted[middle] + sorted[middle + 1]) / 2
end

---@class bench.Summary
---@field median number
---@field min number
---@field max number
---@field n integer

---@param values number[]
---@return bench.Summary
function series.summary(values)
  return {
    median = series.median(values),
    min = math.min(table.unpack(values)),
    max = math.max(table.unpack(values)),
    n = #values,
  }
end

--- Each of ours by the peer's of the same round, so that a machine whose speed drifts moves both.
---@param ours number[]
---@param peer number[]
---@return number[]
function series.ratios(ours, peer)
  local list = {}
  for i = 1, math.min(#ours, #peer) do list[i] = ours[i] / peer[i] end
  return list
end

--- Calls each function by turns (A B A B ...), after one round that is not counted, and collects what they return by
--- name: tables of numbers become tables of lists.
---@param rounds integer
---@param measures { [1]: string, [2]: fun(): table<string, number> }[]
---@param say fun(message: string)
---@param cold? boolean every round counts, the first as well
---@return table<string, table<string, number[]>>
function series.by_turns(rounds, measures, say, cold)
  local all = {}
  for round = cold and 1 or 0, rounds do
    for _, measure in ipairs(measures) do
      local name, call = measure[1], measure[2]
      say(("%s, %s"):format(round == 0 and "warm-up" or ("round %d of %d"):format(round, rounds), name))
      local values = call()
      if round > 0 then
        all[name] = all[name] or {}
        for key, value in pairs(values) do
          all[name][key] = all[name][key] or {}
          table.insert(all[name][key], value)
        end
      end
    end
  end
  return all
end

return series
