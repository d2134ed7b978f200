-- Mistakes that an election could have, each a change of one line, and the spec that finds it out.

local SPEC = "spec/election_spec.lua"
local ELECTION, TRANSFER = "lua/synod/election.lua", "lua/synod/election/transfer.lua"

return {
  { why = "the leadership is handed over before the body has ended", file = ELECTION, spec = SPEC,
    from = "if term.running then", to = "if false then" },
  { why = "a leader that is not well goes on", file = ELECTION, spec = SPEC,
    from = "if not well then return term.stop:set(stepping_down(self, why)) end", to = "" },
  { why = "who is not well stands all the same", file = ELECTION, spec = SPEC,
    from = "if ok and well then return true end", to = "if ok then return true end" },
  { why = "after a loss nobody campaigns again", file = ELECTION, spec = SPEC,
    from = "if given.once then return nil, results[2] end", to = "if true then return nil, results[2] end" },
  { why = "an old answer counts as one", file = TRANSFER, spec = SPEC,
    from = "if not mark or mark.fence ~= term.fence then return nil end", to = "" },
  { why = "an invitation stands when nobody has answered", file = TRANSFER, spec = SPEC,
    from = "if invited and not id and term.lease:held() then write_next(term, nil) end", to = "" },
  { why = "a candidate that is cancelled at the end of a hand-over keeps what it took", file = TRANSFER, spec = SPEC,
    only = "whenever that is", from = "    if held then held:release() end\n", to = "" },
  { why = "one that is cancelled while it asks whether it is well keeps the lease", file = ELECTION, spec = SPEC,
    from = "if not term then held:release() end", to = "" },
  { why = "the leadership is resigned where it should be handed over", file = ELECTION, spec = SPEC,
    from = "  if term.proposal then\n", to = "  if false then\n" },
  { why = "who comes second to end a term does not wait for its end", file = ELECTION, spec = SPEC,
    from = "term.ended:wait() -- another task may be at it", to = "" },
  { why = "the end of a campaign is taken for an illness", file = ELECTION, spec = SPEC,
    from = "task.timeout(self.options.ttl, function() return pcall(healthy) end)", to = "pcall(healthy)" },
  { why = "the body is not guarded", file = ELECTION, spec = SPEC,
    from = "return seat.run(self.lease, self.stop, fn, self, ...)", to = "return fn(self, ...)" },
  { why = "a leader who has lost waits to withdraw its invitation", file = TRANSFER, spec = SPEC,
    only = "time for its clean%-up", from = "and not id and term.lease:held() then", to = "and not id then" },
}
