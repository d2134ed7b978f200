-- Mistakes that a membership could have, each a change of one line; spec/mutations_spec.lua makes them.

local SPEC = "spec/membership_spec.lua"
local ROSTER, MEMBERSHIP = "lua/synod/membership/roster.lua", "lua/synod/membership.lua"

return {
  {
    why = "the last write wins: an older incarnation beats on over a newer one",
    file = ROSTER, spec = SPEC, from = [[{ if_match = record.etag, timeout = timeout, try_timeout = timeout / 2 })]],
    to = [[{ timeout = timeout, try_timeout = timeout / 2 })]],
  },
  {
    why = "a member is judged by the age of its join, not by an observed change",
    file = ROSTER, spec = SPEC,
    from = [[if seen.stamp ~= stamp then seen.stamp, seen.at, seen.changed = stamp, now, true end]],
    to = [[]],
  },
  {
    why = "the ttl that counts is not the record's",
    file = ROSTER, spec = SPEC, from = [[still <= record.ttl * RATE]], to = [[still <= 30]],
  },
  {
    why = "a member that cannot write never learns of it",
    file = MEMBERSHIP, spec = SPEC, from = [[if left(self) <= 0 then return lose]], to = [[if false then return lose]],
  },
  {
    why = "an instance that was replaced takes the newer record for its own",
    file = MEMBERSHIP, spec = SPEC, from = [[  if found.nonce ~= record.nonce then
    return lose]], to = [[  if false then
    return lose]],
  },
  {
    why = "rows of the dead stay for ever",
    file = ROSTER, spec = SPEC, from = [[elseif still > record.ttl * SWEEP then]], to = [[elseif false then]],
  },
  {
    why = "an incarnation that was replaced takes away the row of its successor when it leaves",
    file = ROSTER, spec = SPEC, from = [[self.table:delete(self.group, record.row, { if_match = record.etag })]],
    to = [[self.table:delete(self.group, record.row)]],
  },
  {
    why = "a record of a newer version is overwritten",
    file = ROSTER, spec = SPEC, from = [[if version > LAYOUT then return nil end]], to = [[]],
  },
  {
    why = "the first look passes for a settled one",
    file = ROSTER, spec = SPEC, from = [[sure = is_own or s.changed or false,]], to = [[sure = true,]],
  },
  {
    why = "a beat whose answer was lost counts from when it was found out",
    file = "lua/synod/membership.lua", spec = "spec/membership_spec.lua",
    from = "self.doubt = self.doubt or sent", to = "self.doubt = sent",
  },
  {
    why = "an answer that was long on its way is taken for a silence",
    file = ROSTER, spec = SPEC, only = "long on its way", from = "(asked - s.at)", to = "(now - s.at)",
  },
}
