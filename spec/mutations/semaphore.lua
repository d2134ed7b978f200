-- Mistakes that a semaphore could have, each a change of one line, and the spec that finds it out.

local SPEC = "spec/semaphore_spec.lua"
local SEMAPHORE = "lua/synod/semaphore.lua"

return {
  { why = "there is one permit more", file = SEMAPHORE, spec = SPEC,
    from = "for slot = 1, permits do", to = "for slot = 1, permits + 1 do" },
  { why = "an instance that was made with another number is let in", file = SEMAPHORE, spec = SPEC,
    from = "if there == permits then return true end", to = "if there then return true end" },
  { why = "permits beyond a smaller number are forgotten", file = SEMAPHORE, spec = SPEC,
    from = "if slot > permits then return slots end", to = "" },
  { why = "the body is not guarded", file = SEMAPHORE, spec = SPEC,
    from = "return seat.run(permit.lease, nil, fn, permit)", to = "return fn(permit)" },
  { why = "all look for a permit under the first number only", file = SEMAPHORE, spec = SPEC,
    from = "for _, slot in ipairs(free_slots(self, held)) do", to = "for _, slot in ipairs { 1 } do" },
  { why = "the dead holder of a short lease is counted from anew", file = SEMAPHORE, spec = SPEC,
    from = [[if not held[slot] or held[slot].kind == "record" then]], to = "if not held[slot] then" },
  { why = "nobody looks whether they were made fewer meanwhile", file = "lua/synod/semaphore.lua",
    spec = "spec/semaphore_spec.lua", from = "if not agreed then return nil, err end", to = "agreed = true" },
}
