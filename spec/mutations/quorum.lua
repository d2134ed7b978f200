-- Mistakes that a quorum could have, each a change of one line, and the spec that finds it out.

local SPEC = "spec/quorum_spec.lua"
local QUORUM, MAJORITY = "lua/synod/quorum.lua", "lua/synod/quorum/majority.lua"

return {
  { why = "one fewer than a majority is enough", file = QUORUM, spec = SPEC,
    from = "return o.parties and o.parties // 2 + 1 end", to = "return o.parties and o.parties // 2 end" },
  { why = "members that nobody has seen to live are counted", file = QUORUM, spec = SPEC,
    from = "or not own and member.sure then", to = "or not own then" },
  { why = "the head stays though the quorum is gone", file = QUORUM, spec = SPEC,
    from = "if held ~= false then return true end", to = "if true then return true end" },
  { why = "a minority of the stores is enough for the lease", file = MAJORITY, spec = SPEC,
    from = "need = #seats // 2 + 1, name = name", to = "need = #seats // 2, name = name" },
  { why = "the fence is not written to a majority", file = MAJORITY, spec = SPEC,
    from = "local written = each(#self.seats, function(i) return parts[i] and raise(parts[i], fence) end)",
    to = "local written = parts" },
  { why = "the lease lasts as long as the longest of its leases", file = MAJORITY, spec = SPEC,
    from = "  return ends[self.need].soft, ends[self.need].hard",
    to = "  return ends[1].soft + 10000000000, ends[1].hard + 10000000000" },
  { why = "what an attempt without a majority has taken is kept", file = MAJORITY, spec = SPEC,
    from = "local cancelled = not kept and release_all(parts) or nil", to = "local cancelled" },
  { why = "what was lost is not taken again", file = MAJORITY, spec = SPEC,
    from = "while not self.over:wait(ttl * MEND) do mend(self) end", to = "self.over:wait()" },
  { why = "who was stopped for a while is never counted again", file = QUORUM, spec = SPEC, only = "counts one again",
    from = "if self.members then return self.members:join() end", to = "if self.members then return true end" },
  { why = "what is being taken again is kept after a release", file = MAJORITY, spec = SPEC,
    only = "gives back what it is", from = "if self.parts[i] ~= taken then taken:release() end", to = "" },
}
