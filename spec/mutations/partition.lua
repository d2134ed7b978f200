-- Mistakes that a partition could have, each a change of one line, and the spec that finds it out.

local SPEC = "spec/partition_spec.lua"
local PARTITION = "lua/synod/partition.lua"
local JOB, SHARES = "lua/synod/partition/job.lua", "lua/synod/partition/shares.lua"

return {
  { why = "an instance takes more than its share", file = PARTITION, spec = SPEC, only = "no more than a share",
    from = "local beyond = mine(self) >= view.high", to = "local beyond = false" },
  { why = "an item is given back before it has stopped", file = JOB, spec = SPEC, only = "moves items",
    from = [[self:halt("it is handed over to " .. instance)]],
    to = "transfer.hand_over(self) self.proposal = nil" },
  { why = "who retires keeps what nobody needs", file = PARTITION, spec = SPEC, only = "by one that retires",
    from = "and (self.retiring or spare >=", to = "and (spare >=" },
  { why = "what another has asked for is taken by a third", file = SHARES, spec = SPEC, only = "moves items",
    from = "  if view.asked[item] then return false end\n", to = "" },
  { why = "who has too few does not ask", file = PARTITION, spec = SPEC, only = "moves items",
    from = "    ask(self, view)\n", to = "" },
  { why = "the target is not told to get ready", file = PARTITION, spec = SPEC, only = "moves items",
    from = "    if not ready then self.options.on_arriving(item) end\n", to = "" },
  { why = "what is no item any more runs on", file = PARTITION, spec = SPEC, only = "follows the list",
    from = "if alone or not view.items[item] then", to = "if alone then" },
  { why = "what is free stays free while a share is not taken", file = SHARES, spec = SPEC, only = "leaves what is new",
    from = "local PATIENCE_LOOKS = 3", to = "local PATIENCE_LOOKS = 1e6" },
  { why = "a lease is given back while a hook goes on under it", file = JOB, spec = SPEC, only = "waits for its hooks",
    from = "    self.still:wait()", to = "" },
  { why = "who retires waits for what it has asked for", file = PARTITION, spec = SPEC, only = "for nothing more",
    from = [[if receiver then receiver:cancel "this instance retires" end]], to = "" },
  { why = "what a hook raises is passed over", file = PARTITION, spec = SPEC, only = "what a hook raises",
    from = "if not ok and not is_cancel then fail(self, err) end", to = "" },
  { why = "what the store refuses for good is passed over", file = PARTITION, spec = SPEC, only = "refuses for good",
    from = "if not passing then self.refusal = self.refusal or err end", to = "" },
  { why = "a controlled stop gives nothing away", file = PARTITION, spec = "spec/partition_process_spec.lua",
    from = [[task.on("stopping", function() self:retire { timeout = self.options.stop_timeout } end)]], to = "" },
  { why = "what the dead have a share in is not fetched", file = SHARES, spec = SPEC, only = "retires runs fetched",
    from = "or going and is_late(self, id))", to = ")" },
  { why = "who is late to retire waits for an answer", file = PARTITION, spec = SPEC, only = "ends soon after",
    from = "  self.late = true\n", to = "" },
  { why = "what the dead have run waits as what is new", file = SHARES, spec = SPEC, only = "leaves what is new",
    from = "if self.was_held[item] then self.free_since[item] = -math.huge end", to = "" },
  { why = "only who has less than the smaller share asks", file = SHARES, spec = SPEC, only = "cannot be equal",
    from = "mine < self.high and (going or count >= mine + 2)",
    to = "(mine < self.high and going or count >= mine + 3)" },
}
