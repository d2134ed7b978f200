-- Mistakes that a partition could have, each a change of one line, and the spec that finds it out.

local SPEC = "spec/partition_spec.lua"
local PARTITION, JOB = "lua/synod/partition.lua", "lua/synod/job.lua"

return {
  { why = "an instance takes more than its share", file = PARTITION, spec = SPEC,
    from = "if mine(self) >= view.high then break end", to = "" },
  { why = "an item is given back before it has stopped", file = JOB, spec = SPEC,
    from = [[self:finish("it is handed over to " .. instance)]],
    to = "transfer.hand_over(self) self.proposal = nil" },
  { why = "who retires keeps what nobody needs", file = PARTITION, spec = SPEC,
    from = "and (self.retiring or spare >=", to = "and (spare >=" },
  { why = "what another has asked for is taken by a third", file = PARTITION, spec = SPEC,
    from = "or self.arriving[item] or view.asked[item] then", to = "or self.arriving[item] then" },
  { why = "who has too few does not ask", file = PARTITION, spec = SPEC,
    from = "if not free then ask(self, view) end", to = "" },
  { why = "the target is not asked to get ready", file = PARTITION, spec = SPEC,
    from = "prepare and function() prepare(item) end)", to = "nil)" },
  { why = "what is no item any more runs on", file = PARTITION, spec = SPEC,
    from = "if (alone or not view.items[item])", to = "if alone" },
}
