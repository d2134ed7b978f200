-- What is judged first when a lease and a condition both refuse: of every use of a blob the lease, of a call about the
-- lease itself the condition. The same cases on every store; where the emulator differs see spec/azure/differences.lua.

local core = require "synod.core"
local differences = require "spec.azure.differences"
local sh = require "spec.support.sh"
require "synod.store"

local A, B = "aaaaaaaa-0000-4000-8000-00000000000a", "bbbbbbbb-0000-4000-8000-00000000000b"
local STALE = '"0x0000000000000001"'

local MISSING, OTHER_ID = "LeaseIdMissing 412", "LeaseIdMismatchWithBlobOperation 412"
local NOT_MET, EXISTS = "ConditionNotMet 412", "BlobAlreadyExists 409"
local NO_LEASE = "LeaseNotPresentWithBlobOperation 412"

--- Each use: what it does, with these options.
local USES = {
  put = function(b, options) return b:put("x", options) end,
  set_metadata = function(b, options) return b:set_metadata({ a = "1" }, options) end,
  append = function(b, options) return b:append("x", options) end,
  delete = function(b, options) return b:delete(options) end,
  copy_from = function(b, options, other) return b:copy_from(other, options) end,
  get = function(b, options) return b:get(options) end,
  head = function(b, options) return b:head(options) end,
}

-- The outcomes of a use of a leased blob: with a stale If-Match without an id, with another's, with the holder's;
-- then of one that is not leased, with an id. `create` stands for If-None-Match: * instead. A read needs no id.
local CASES = {
  { "put", {}, MISSING, OTHER_ID, NOT_MET, NO_LEASE },
  { "put", { create = true }, MISSING, OTHER_ID, EXISTS, NO_LEASE },
  { "copy_from", {}, MISSING, OTHER_ID, NOT_MET, NO_LEASE },
  { "copy_from", { create = true }, MISSING, OTHER_ID, EXISTS, NO_LEASE },
  { "set_metadata", {}, MISSING, OTHER_ID, NOT_MET, NO_LEASE },
  { "append", {}, MISSING, OTHER_ID, NOT_MET, NO_LEASE },
  { "delete", {}, MISSING, OTHER_ID, NOT_MET, NO_LEASE },
  { "get", {}, NOT_MET, OTHER_ID, NOT_MET, NO_LEASE },
  { "head", {}, NOT_MET, OTHER_ID, NOT_MET, NO_LEASE },
}

local function ours(case) return table.move(case, 3, 6, 1, {}) end

local function outcome(first, err)
  return first ~= nil and "ok" or err.code .. " " .. err.status
end

--- The four outcomes of a case, each on a blob of its own.
local function outcomes(c, case)
  local list, other = {}, c:blob "other"
  assert(other:put "other")
  for i, id in ipairs { false, B, A, A } do
    local b = c:blob(("%s-%s-%d"):format(case[1], case[2].create and "create" or "match", i))
    assert(b:put("", { type = case[1] == "append" and "append" or "block" }))
    if i < 4 then assert(b:lease { id = A, duration = -1 }) end
    local options = { lease = id or nil, if_match = not case[2].create and STALE or nil }
    if case[2].create then options.if_none_match = "*" end
    list[i] = outcome(USES[case[1]](b, options, other))
  end
  return list
end

--- Calls about the lease itself: the condition comes first, then the state.
local function lease_outcomes(c)
  local b = c:blob "leased"
  local etag = assert(b:put "x").etag
  assert(b:lease { id = A, duration = -1 })
  return {
    outcome(b:lease { id = B, if_match = STALE }), outcome(b:lease { id = B, if_match = etag }),
    outcome(b:break_lease(0, { if_match = STALE })), outcome(b:break_lease(0, { if_none_match = etag })),
    outcome(b:break_lease(0, { if_match = etag })),
  }
end

local LEASE_OUTCOMES = { NOT_MET, "LeaseAlreadyPresent 409", NOT_MET, NOT_MET, "ok" }

local function name_of(case) return case[1] .. (case[2].create and " if_none_match" or " if_match") end

--- What the emulator judges first is known to differ: whatever the lease, it says what the condition comes to.
local function theirs(case)
  for _, row in ipairs(differences) do
    if row.spec == "spec/store/check_order_spec.lua" then
      local by_condition = case[5]
      return { by_condition, by_condition, by_condition, by_condition }
    end
  end
  return ours(case)
end

local function on_store(url, clock, fn)
  return core.main(function()
    local store <close> = assert(core.open_store(url))
    local c = store:container("order-" .. os.time())
    assert(c:create())
    return fn(c)
  end, clock and { clock = clock, seed = 1 } or nil)
end

for _, place in ipairs { "memory:", "embedded:" } do
  describe("on " .. place .. " a lease is judged before a condition", function()
    local folder
    lazy_setup(function() folder = sh.folder() end)
    lazy_teardown(function() folder:close() end)
    local function url() return place == "memory:" and place or place .. folder.path .. "/s.db?relaxed" end

    for _, case in ipairs(CASES) do
      it("by " .. name_of(case), function()
        assert.same(ours(case), on_store(url(), "virtual", function(c)
          return outcomes(c, case)
        end))
      end)
    end

    it("but not by calls about the lease itself", function()
      assert.same(LEASE_OUTCOMES, on_store(url(), "virtual", lease_outcomes))
    end)
  end)
end

describe("on Azurite", function()
  it("it is the same, but for the known differences", function()
    local url = require("spec.support.azurite").connection_string()
    on_store(url, nil, function(c)
      for _, case in ipairs(CASES) do assert.same(theirs(case), outcomes(c, case), name_of(case)) end
      assert.same(LEASE_OUTCOMES, lease_outcomes(c))
    end)
  end)
end)
