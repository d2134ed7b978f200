-- What every store answers about leases, as data: a case is a list of steps and what each comes to.
--
-- The steps are words, for spec/support/lease_rules.c (the rules alone) and spec/support/lease_steps.lua (a store):
--   acquire ID SECONDS   renew ID   change ID ID   release ID   break [SECONDS]   state   wait SECONDS
--   read get|head ID     write put|metadata|create ID     delete blob|container ID
-- An ID is A, B, C or "-": none. A case with `fine` needs a clock that can be told; `only` says where it has a meaning.

local ALREADY = "LeaseAlreadyPresent 409"
local MISMATCH = "LeaseIdMismatchWithLeaseOperation 409"
local ABSENT = "LeaseNotPresentWithLeaseOperation 409"
local BROKEN = "LeaseIsBrokenAndCannotBeRenewed 409"
local UNCHANGEABLE = "LeaseIsBreakingAndCannotBeChanged 409"
local UNACQUIRABLE = "LeaseIsBreakingAndCannotBeAcquired 409"
local NO_LEASE = "LeaseNotPresentWithBlobOperation 412"
local OTHER_ID = "LeaseIdMismatchWithBlobOperation 412"
local MISSING = "LeaseIdMissing 412"
local LOST = "LeaseLost 412"

local LEASED, FOREVER, FREE = "leased locked fixed", "leased locked infinite", "available unlocked"
local BREAKING, OVER, EXPIRED = "breaking locked", "broken unlocked", "expired unlocked"

-- Each state, how it comes about, what it is called, and its column in the tables below.
local STATES = {
  { "available", {}, FREE, 1 },
  { "leased", { "acquire A 60" }, LEASED, 2 },
  { "leased for ever", { "acquire A -1" }, FOREVER, 3 },
  { "breaking", { "acquire A 60", "break 30" }, BREAKING, 4 },
  { "breaking, was for ever", { "acquire A -1", "break 30" }, BREAKING, 4 },
  { "broken", { "acquire A 60", "break 0" }, OVER, 5 },
  { "broken, was for ever", { "acquire A -1", "break" }, OVER, 5 },
  { "broken by time", { "acquire A 60", "break 3", "wait 3" }, OVER, 5 },
  { "expired", { "acquire A 15", "wait 15" }, EXPIRED, 6 },
}

-- Table 1.4. Columns: available, leased, for ever, breaking, broken, expired.
local OPERATIONS = {
  { "acquire - 60", "201", ALREADY, ALREADY, ALREADY, "201", "201" },
  { "acquire A 60", "201", "201", "201", UNACQUIRABLE, "201", "201" },
  { "acquire A -1", "201", "201", "201", UNACQUIRABLE, "201", "201" },
  { "acquire B 60", "201", ALREADY, ALREADY, ALREADY, "201", "201" },
  { "renew A", MISMATCH, "200", "200", BROKEN, BROKEN, "200" },
  { "renew B", MISMATCH, MISMATCH, MISMATCH, MISMATCH, MISMATCH, MISMATCH },
  { "change A B", ABSENT, "200", "200", UNCHANGEABLE, ABSENT, ABSENT },
  { "change B A", ABSENT, "200", "200", MISMATCH, ABSENT, ABSENT },
  { "change B C", ABSENT, MISMATCH, MISMATCH, MISMATCH, ABSENT, ABSENT },
  { "release A", MISMATCH, "200", "200", "200", "200", "200" },
  { "release B", MISMATCH, MISMATCH, MISMATCH, MISMATCH, MISMATCH, MISMATCH },
  { "break", ABSENT, "202 60", "202 0", "202 30", "202 0", "202 0" },
  { "break 0", ABSENT, "202 0", "202 0", "202 0", "202 0", "202 0" },
  { "break 10", ABSENT, "202 10", "202 10", "202 10", "202 0", "202 0" },
  { "break 45", ABSENT, "202 45", "202 45", "202 30", "202 0", "202 0" },
}

-- Table 1.6, the same columns.
local USES = {
  { "write put A", NO_LEASE, "ok", "ok", "ok", NO_LEASE, LOST },
  { "write put B", NO_LEASE, OTHER_ID, OTHER_ID, OTHER_ID, NO_LEASE, NO_LEASE },
  { "write put -", "ok", MISSING, MISSING, MISSING, "ok", "ok" },
  { "write metadata A", NO_LEASE, "ok", "ok", "ok", NO_LEASE, LOST },
  { "write metadata B", NO_LEASE, OTHER_ID, OTHER_ID, OTHER_ID, NO_LEASE, NO_LEASE },
  { "write metadata -", "ok", MISSING, MISSING, MISSING, "ok", "ok" },
  { "read get A", NO_LEASE, "ok", "ok", "ok", NO_LEASE, LOST },
  { "read get B", NO_LEASE, OTHER_ID, OTHER_ID, OTHER_ID, NO_LEASE, NO_LEASE },
  { "read get -", "ok", "ok", "ok", "ok", "ok", "ok" },
  { "read head A", NO_LEASE, "ok", "ok", "ok", NO_LEASE, LOST },
  { "read head B", NO_LEASE, OTHER_ID, OTHER_ID, OTHER_ID, NO_LEASE, NO_LEASE },
  { "read head -", "ok", "ok", "ok", "ok", "ok", "ok" },
}

-- What only a store can answer, since the blob goes with it; 1.6 again, and 1.8.
local DELETES = {
  { "delete blob A", NO_LEASE, "ok", "ok", "ok", NO_LEASE, LOST },
  { "delete blob B", NO_LEASE, OTHER_ID, OTHER_ID, OTHER_ID, NO_LEASE, NO_LEASE },
  { "delete blob -", "ok", MISSING, MISSING, MISSING, "ok", "ok" },
}
local NEEDLESS = "LeaseNotPresentWithContainerOperation 412"
local OF_ANOTHER = "LeaseIdMismatchWithContainerOperation 412"
local CONTAINER_DELETES = {
  { "delete container A", NEEDLESS, "ok", "ok", "ok", NEEDLESS, NEEDLESS },
  { "delete container B", NEEDLESS, OF_ANOTHER, OF_ANOTHER, OF_ANOTHER, NEEDLESS, NEEDLESS },
  { "delete container -", "ok", MISSING, MISSING, MISSING, "ok", "ok" },
}

-- 1.3 and the golden cases: each step with what it comes to.
local SEQUENCES = {
  { "an expired lease survives a read, and is renewed",
    "acquire A 15", "201", "wait 15", "ok", "read get -", "ok", "state", EXPIRED, "renew A", "200", "state", LEASED },
  { "an expired lease does not survive a write",
    "acquire A 15", "201", "wait 15", "ok", "write put -", "ok", "state", FREE, "renew A", MISMATCH },
  { "an expired lease does not survive a change of metadata",
    "acquire A 15", "201", "wait 15", "ok", "write metadata -", "ok", "state", FREE, "renew A", MISMATCH },
  { "an expired lease that another has taken is not renewed",
    "acquire A 15", "201", "wait 15", "ok", "acquire B 15", "201", "renew A", MISMATCH, "renew B", "200" },
  { "an expired lease is released once",
    "acquire A 15", "201", "wait 15", "ok", "release A", "200", "release A", MISMATCH, "state", FREE },
  { "a broken lease does not survive a write",
    "acquire A 60", "201", "break 0", "202 0", "write put -", "ok", "state", FREE, "renew A", MISMATCH },
  { "one's own lease is taken again for another time",
    "acquire A 15", "201", "acquire A -1", "201", "state", FOREVER, "acquire A 20", "201", "state", LEASED },
  { "what follows a release",
    "acquire A 60", "201", "release A", "200", "renew A", MISMATCH, "change A B", ABSENT, "break", ABSENT,
    "break 0", ABSENT, "acquire B 60", "201" },
  { "a break of five seconds is not made longer, but is over when one asks",
    "acquire A 60", "201", "break 5", "202 5", "break 30", "202 5", "state", BREAKING, "break 0", "202 0",
    "state", OVER },
  { "a break of a lease for ever, made shorter",
    "acquire A -1", "201", "break 60", "202 60", "break 20", "202 20", "break", "202 20" },
  { "the holder during a break",
    "acquire A 60", "201", "break 30", "202 30", "write put A", "ok", "state", BREAKING, "renew A", BROKEN,
    "acquire B 60", ALREADY, "release A", "200", "acquire B 60", "201", "write put A", OTHER_ID, "write put B", "ok" },
  { "a change, repeated; the old id is good for nothing",
    "acquire A 60", "201", "change A B", "200", "change A B", "200", "renew A", MISMATCH, "release A", MISMATCH,
    "acquire A 60", ALREADY, "write put A", OTHER_ID, "read get A", OTHER_ID, "change A C", MISMATCH,
    "write put B", "ok", "renew B", "200" },
  { "a lease for ever stays one when it is renewed and changed",
    "acquire A -1", "201", "renew A", "200", "state", FOREVER, "change A B", "200", "state", FOREVER },
  { "the holder overwrites the blob and keeps the lease",
    "acquire A 60", "201", "write put A", "ok", "state", LEASED, "write put -", MISSING, "write metadata A", "ok",
    "renew A", "200", only = "blob" },
  { "a create-only put meets the lease before the blob",
    "acquire A 60", "201", "write create -", MISSING, "write create B", OTHER_ID, "write create A",
    "BlobAlreadyExists 409", only = "blob" },
  { "a lease goes with its blob",
    "acquire A 60", "201", "delete blob A", "ok", "renew A", "BlobNotFound 404", "acquire A 60", "BlobNotFound 404",
    "write put -", "ok", "state", FREE, "renew A", MISMATCH, only = "blob" },
  -- to the instant
  { "a lease is over at its end and not before",
    "acquire A 15", "201", "wait 14.999999999", "ok", "state", LEASED, "write put -", MISSING, "write put A", "ok",
    "wait 0.000000001", "ok", "state", EXPIRED, "write put A", LOST, "write put -", "ok", fine = true },
  { "an acquire at the end, and before it",
    "acquire A 60", "201", "wait 59.999999999", "ok", "acquire B 60", ALREADY, "wait 0.000000001", "ok",
    "acquire B 60", "201", fine = true },
  { "a break is over at its end and not before",
    "acquire A 60", "201", "break 30", "202 30", "wait 29.999999999", "ok", "state", BREAKING, "write put -", MISSING,
    "wait 0.000000001", "ok", "state", OVER, "write put A", NO_LEASE, "renew A", BROKEN, "write put -", "ok",
    fine = true },
  { "a break without a period is over when the lease would have been",
    "acquire A 60", "201", "wait 50", "ok", "break", "202 10", "wait 9.999999999", "ok", "state", BREAKING,
    "wait 0.000000001", "ok", "state", OVER, fine = true },
  { "a break asked for a minute takes what is left",
    "acquire A 15", "201", "wait 5", "ok", "break 60", "202 10", "wait 4", "ok", "break 60", "202 6", fine = true },
  { "seconds left are never told too few",
    "acquire A 15", "201", "wait 0.000000001", "ok", "break", "202 15", "wait 14.5", "ok", "break", "202 1",
    fine = true },
  { "a renewal starts the clock again, for the original time",
    "acquire A 15", "201", "wait 14", "ok", "renew A", "200", "wait 14.999999999", "ok", "state", LEASED,
    "wait 0.000000001", "ok", "state", EXPIRED, "renew A", "200", "wait 15", "ok", "state", EXPIRED, fine = true },
  { "a renewal of a minute is one of a minute",
    "acquire A 60", "201", "wait 40", "ok", "renew A", "200", "wait 59.999999999", "ok", "state", LEASED,
    "wait 0.000000001", "ok", "state", EXPIRED, fine = true },
  { "a break long after the end",
    "acquire A 15", "201", "wait 100", "ok", "break 20", "202 0", "state", OVER, fine = true },
  { "one's own lease, taken again, ends later",
    "acquire A 15", "201", "wait 10", "ok", "acquire A 60", "201", "wait 59.999999999", "ok", "state", LEASED,
    "wait 0.000000001", "ok", "state", EXPIRED, fine = true },
  { "and may end earlier",
    "acquire A 60", "201", "acquire A 15", "201", "wait 15", "ok", "state", EXPIRED, fine = true },
  { "a change leaves the end where it was",
    "acquire A 15", "201", "wait 10", "ok", "change A B", "200", "change A B", "200", "wait 4.999999999", "ok",
    "state", LEASED, "wait 0.000000001", "ok", "state", EXPIRED, "renew A", MISMATCH, "renew B", "200", fine = true },
  { "a lease for ever lasts",
    "acquire A -1", "201", "wait 100000000", "ok", "state", FOREVER, "acquire B 60", ALREADY, fine = true },
  { "an expired lease waits for its holder",
    "acquire A 15", "201", "wait 100000000", "ok", "state", EXPIRED, "renew A", "200", fine = true },
}

-- 1.7, which the rules answer; a script is told by an error at its line.
local HEADER, LACKING = "InvalidHeaderValue 400", "MissingRequiredHeader 400"
local BAD_INPUT = {
  { "durations", "acquire A 14", HEADER, "acquire A 61", HEADER, "acquire A 0", HEADER, "acquire A -2", HEADER,
    "acquire A", LACKING, "acquire A 15", "201", "acquire A 60", "201" },
  { "breaks", "acquire A -1", "201", "break -1", HEADER, "break 61", HEADER, "break 60", "202 60" },
  { "ids", "acquire none 60", LACKING, "acquire id 60", HEADER,
    "acquire aaaaaaaa-0000-4000-8000-0000000000 60", HEADER,
    "acquire aaaaaaaa-0000-4000-8000-0000000000000a 60", HEADER,
    "acquire aaaaaaaa00000400080000000000000-a 60", HEADER, "acquire aaaaaaaa-0000-4000-8000+00000000000a 60", HEADER,
    "acquire gaaaaaaa-0000-4000-8000-00000000000a 60", HEADER, "acquire {aaaaaaaa-0000-4000-8000-00000000000a) 60",
    HEADER, "acquire {aaaaaaaa00004000800000000000000a} 60", HEADER },
  { "ids in a call", "acquire A 60", "201", "renew -", LACKING, "release -", LACKING, "change A -", LACKING,
    "change - B", LACKING, "renew id", HEADER, "change A id", HEADER, "read get id", HEADER },
  { "spellings of one id", "acquire {AAAAAAAA-0000-4000-8000-00000000000A} 60", "201",
    "renew (aaaaaaaa-0000-4000-8000-00000000000a)", "200", "acquire aaaaaaaa00004000800000000000000A 60", "201",
    "write put AAAAAAAA-0000-4000-8000-00000000000A", "ok",
    "change aaaaaaaa00004000800000000000000a bbbbbbbb00004000800000000000000b", "200",
    "release BBBBBBBB-0000-4000-8000-00000000000B", "200" },
}

--- The state after a step that came to `result`.
local function state_after(step, result, before)
  local what, _, more = step:match "^(%S+) ?(%S*) ?(%S*)$"
  if what == "acquire" and result == "201" then return more == "-1" and FOREVER or LEASED end
  if what == "renew" and result == "200" then return before == FOREVER and FOREVER or LEASED end
  if what == "release" and result == "200" then return FREE end
  if what == "break" and result:find "^202" then return result == "202 0" and OVER or BREAKING end
  local over = before == EXPIRED or before == OVER
  return what == "write" and more == "-" and over and FREE or before
end

--- A cell of a table as a case: the way to the state, the step, and the state after it.
local function cell(row, state, only)
  local steps, expected = {}, {}
  for i, step in ipairs(state[2]) do
    steps[i] = step
    local period = step:match "^break ?(%d*)$"
    expected[i] = period and "202 " .. (period == "" and "0" or period) or step:find "^wait" and "ok" or "201"
  end
  local step, result = row[1], row[state[4] + 1]
  steps[#steps + 1], expected[#expected + 1] = step, result
  if not step:find "^delete" then
    steps[#steps + 1], expected[#expected + 1] = "state", state_after(step, result, state[3])
  end
  return { name = step .. " | " .. state[1], steps = steps, expected = expected, only = only }
end

local function sequence(list)
  local case = { name = list[1], steps = {}, expected = {}, fine = list.fine, only = list.only }
  for i = 2, #list, 2 do
    case.steps[#case.steps + 1], case.expected[#case.expected + 1] = list[i], list[i + 1]
  end
  return case
end

local cases = { list = {}, bad_input = {} }

for _, each in ipairs { { OPERATIONS }, { USES, "blob" }, { DELETES, "blob" }, { CONTAINER_DELETES, "container" } } do
  for _, row in ipairs(each[1]) do
    for _, state in ipairs(STATES) do cases.list[#cases.list + 1] = cell(row, state, each[2]) end
  end
end
for _, list in ipairs(SEQUENCES) do cases.list[#cases.list + 1] = sequence(list) end
for _, list in ipairs(BAD_INPUT) do cases.bad_input[#cases.bad_input + 1] = sequence(list) end

local function suits(case, where)
  if case.only and case.only ~= (where == "rules" and "blob" or where) then return false end
  local text = table.concat(case.steps, ";")
  if where == "container" then return not (text:find "write " or text:find "read ") end
  return where ~= "rules" or not (text:find "delete " or text:find "create ")
end

--- The cases that a place can answer: "blob", "container" or "rules"; without the fine ones on a clock that only runs.
---@param where string
---@param live? boolean
---@return table[]
function cases.of(where, live)
  local found = {}
  for _, case in ipairs(cases.list) do
    if suits(case, where) and not (live and case.fine) then found[#found + 1] = case end
  end
  return found
end

return cases
