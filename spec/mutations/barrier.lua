-- Mistakes that a barrier could have, each a change of one line, and the checker that finds it out.
-- spec/barrier_random_spec.lua makes each and shows that drawn worlds do not survive it.

return {
  {
    id = "flag-of-a-life", why = "an arrival is keyed by the life of an instance, and counted again after a restart",
    file = "flags", find = [[local blob = self.container:blob(("%s_%d"):format(self.key, self.ordinal))]],
    replace = [[local blob = self.container:blob(("%s_%d"):format(self.key, core.random() * 4 // 1 | 0))]],
    checker = "S3",
  },
  {
    id = "no-round", why = "the round is not part of the name",
    file = "barrier", find = [[local key = o.round and ("%s.%s"):format(o.name, o.round) or tostring(o.name)]],
    replace = [[local key = tostring(o.name)]],
    checker = "S3",
  },
  {
    id = "no-deployment", why = "the flags of an earlier deployment count",
    file = "barrier", find = [[if o.bare or not o.deployment then return key end]],
    replace = [[if true then return key end]],
    checker = "S3",
  },
  {
    id = "last-one-only", why = "only the last to arrive may open the gate",
    file = "crossing", find = [[if core.instant() >= self.list_at then return count(self, timeout) end]],
    replace = [[]],
    checker = "L2",
  },
  {
    id = "one-fewer", why = "the gate is opened when one is still missing",
    file = "crossing", find = [[if needed <= 0 then return open(self, raised) end]],
    replace = [[if needed <= 1 then return open(self, raised) end]],
    checker = "S3",
  },
  {
    id = "any-gate", why = "an open gate is open, though it was opened by a smaller deployment",
    file = "crossing",
    find = [[return gate.parties >= self.options.parties and #self:present_in(gate.counted) >= enough(self)]],
    replace = [[return true]],
    checker = "S3",
  },
  {
    id = "own-record", why = "who comes second to open the gate believes in what it has seen itself",
    file = "crossing", find = [[      self.passed = over
      return over]],
    replace = [[      self.passed = record return record]],
    checker = "A1",
  },
  {
    id = "impatient", why = "fewer are enough at once, not when the time has passed",
    file = "crossing", find = [[degraded = o.within == 0,]], replace = [[degraded = true,]],
    checker = "S3",
  },
  {
    id = "one-door", why = "those who leave raise the flags of those who came",
    file = "barrier", find = [[self.exit = crossing.new(self.options, self.options.key .. ".leave", members)]],
    replace = [[self.exit = crossing.new(self.options, self.options.key, members)]],
    checker = "S3",
  },
}
