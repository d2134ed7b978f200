-- Mistakes that a counter could have, each a change of one line, and the spec that finds it out.

local SPEC = "spec/counter_spec.lua"

return {
  { file = "lua/synod/counter.lua", spec = SPEC, why = "an addition whose answer was lost is made again",
    from = "if done then return true, change.value end", to = "" },
  { file = "lua/synod/counter.lua", spec = SPEC, why = "a retry below hides whose write came first",
    from = "timeout = timeout, retries = 0,", to = "timeout = timeout," },
  { file = "lua/synod/counter.lua", spec = SPEC, why = "what was read is written back whatever came in between",
    from = "if_match = record.etag,", to = "if_match = nil," },
  { file = "lua/synod/counter.lua", spec = SPEC, why = "not found is taken for not done though it may be forgotten",
    from = "if record.forgotten >= change.number or record.writes < change.number - 1 then return nil end", to = "" },
  { file = "lua/synod/counter.lua", spec = SPEC, why = "a try that may still arrive is forgotten",
    from = "change.doubted = record.etag == change.over", to = "change.doubted = false" },
  { file = "lua/synod/counter.lua", spec = SPEC, why = "one busy instance fills the memory",
    from = "if self.settled[entry.nonce] then", to = "if false then" },
}
