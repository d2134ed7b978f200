-- Lost answers of calls on tables, on the virtual clock: no write happens twice, none that happened is refused.

local core = require "synod.core"

--- Runs fn(store, table) in a store over which these faults hang.
local function with_faults(faults, fn, seed)
  return core.main(function()
    local store <close> = assert(core.open_store("memory:", { faults = faults }))
    local tbl = store:table "Counters"
    assert(tbl:create())
    return fn(store, tbl)
  end, { clock = "virtual", seed = seed or 1 })
end

--- Each way in which an answer is lost although the request was carried out.
local AFTER_APPLY = {
  { kind = "lost-response" },
  { kind = "delay", seconds = 60 },
  { kind = "error-after-apply" },
  { kind = "error-after-apply", code = "ServerBusy" },
  { kind = "error-after-apply", code = "BadAnswer" },
}

local function each_loss(operation, ordinal, fn)
  for _, fault in ipairs(AFTER_APPLY) do
    with_faults({
      { operation = operation, ordinal = ordinal, kind = fault.kind, code = fault.code, seconds = fault.seconds },
    }, fn)
  end
end

local function e(row, n)
  return { partition = "p", row = row, n = n }
end

describe("a lost answer", function()
  it("to an insert is settled by its nonce, which nobody sees", function()
    each_loss("InsertEntity", 1, function(store, tbl)
      local written = assert(tbl:insert(e("r", 1)))
      assert.same({ CreateTable = 1, InsertEntity = 2, GetEntity = 1 }, store:usage())
      local got = tbl:get("p", "r")
      assert.equal(written.etag, got.etag)
      assert.is_nil(got.synod_nonce)
      for each in tbl:query() do assert.is_nil(each.synod_nonce) end
      local _, err = tbl:insert(e("r", 1))
      assert.equal("EntityAlreadyExists", err.code)
    end)
  end)

  it("to an insert that somebody else has won stays a refusal, with equal content too", function()
    with_faults({ { operation = "InsertEntity", ordinal = 2, kind = "lost-request" } }, function(_, tbl)
      assert(tbl:insert(e("mark", 1)))
      local ok, err = tbl:insert(e("mark", 1))
      assert.is_nil(ok)
      assert.equal("EntityAlreadyExists", err.code)
    end)
  end)

  for _, call in ipairs { { "replace", "UpdateEntity" }, { "merge", "MergeEntity" } } do
    local name, operation = call[1], call[2]
    it("to a conditional " .. name .. " is settled the same way", function()
      each_loss(operation, 1, function(_, tbl)
        local first = assert(tbl:insert(e("r", 1)))
        local second = assert(tbl[name](tbl, e("r", 2), { if_match = first.etag }))
        assert.equal(second.etag, tbl:get("p", "r").etag)
        local _, err = tbl[name](tbl, e("r", 3), { if_match = first.etag })
        assert.equal("UpdateConditionNotSatisfied", err.code)
        assert.equal(2, tbl:get("p", "r").n)
      end)
    end)

    it("to a conditional " .. name .. " that lost the race loses no count", function()
      with_faults({ { operation = operation, ordinal = 2, kind = "lost-request" } }, function(_, tbl)
        local first = assert(tbl:insert(e("r", 1)))
        assert(tbl[name](tbl, e("r", 2), { if_match = first.etag })) -- the other one
        local ok, err = tbl[name](tbl, e("r", 2), { if_match = first.etag })
        assert.is_nil(ok)
        assert.equal("UpdateConditionNotSatisfied", err.code)
      end)
    end)

    it("to a " .. name .. " of any version: it is written again", function()
      each_loss(operation, 1, function(store, tbl)
        tbl:insert(e("r", 1))
        assert(tbl[name](tbl, e("r", 2)))
        assert.equal(2, store:usage()[operation])
        assert.is_nil(store:usage().GetEntity)
      end)
    end)
  end

  it("to an upsert: it is written again", function()
    each_loss("InsertOrReplaceEntity", 1, function(store, tbl)
      assert(tbl:upsert(e("r", 1)))
      assert.equal(2, store:usage().InsertOrReplaceEntity)
    end)
    each_loss("InsertOrMergeEntity", 1, function(store, tbl)
      assert(tbl:upsert(e("r", 1), { mode = "merge" }))
      assert.equal(2, store:usage().InsertOrMergeEntity)
    end)
  end)

  it("to a delete: gone is done", function()
    each_loss("DeleteEntity", 1, function(_, tbl)
      local written = tbl:insert(e("r", 1))
      assert.is_true(tbl:delete("p", "r", { if_match = written.etag }))
      assert.equal("ResourceNotFound", select(2, tbl:delete("p", "r")).code)
    end)
  end)

  it("to a delete that is refused in the words of blobs then: the refusal stands", function()
    local calls = {
      DeleteEntity = function(_, tbl) return tbl:delete("p", "r") end,
      EntityGroupTransaction = function(_, tbl) return tbl:batch { { delete = e "r" } } end,
      DeleteTable = function(_, tbl) return tbl:drop() end,
      DeleteQueue = function(store) return store:queue "work":delete() end,
      DeleteMessage = function(store) return store:queue "work":get()[1]:delete() end,
    }
    for operation, call in pairs(calls) do
      with_faults({
        { operation = operation, kind = "lost-response" },
        { operation = operation, ordinal = 2, kind = "throttle", code = "ConditionNotMet" },
      }, function(store, tbl)
        tbl:insert(e("r", 1))
        local queue = store:queue "work"
        queue:create()
        queue:put "x"
        local ok, err = call(store, tbl)
        assert.same({ nil, "ConditionNotMet" }, { ok, err.code }, operation)
        assert.matches("an attempt before was not answered", err.message)
      end)
    end
  end)

  it("to the making and the removal of a table", function()
    with_faults({ { operation = "CreateTable", ordinal = 2, kind = "lost-response" },
      { operation = "DeleteTable", kind = "lost-response" } }, function(store)
      local tbl = store:table "Another"
      assert.is_true(tbl:create())
      assert.is_true(tbl:drop())
      assert.equal("TableNotFound", select(2, tbl:drop()).code)
    end)
  end)

  it("to a batch is settled by the nonce of one of its entities", function()
    each_loss("EntityGroupTransaction", 1, function(_, tbl)
      tbl:insert(e("gone", 1))
      local old = tbl:insert(e("old", 1))
      local results = assert(tbl:batch {
        { delete = e "gone" }, { merge = e("old", 2), if_match = old.etag }, { insert = e("new", 3) },
      })
      assert.is_true(results[1])
      assert.equal(tbl:get("p", "old").etag, results[2].etag)
      assert.is_nil(results[3].etag)
      assert.same({ 2, 3 }, { tbl:get("p", "old").n, tbl:get("p", "new").n })
      assert.is_nil(tbl:get("p", "old").synod_nonce)
    end)
  end)

  it("to a batch that never came there: it is repeated", function()
    with_faults({ { operation = "EntityGroupTransaction", kind = "lost-request" } }, function(_, tbl)
      local results = assert(tbl:batch { { insert = e("a", 1) }, { insert = e("b", 1) } })
      assert.equal(tbl:get("p", "b").etag, results[2].etag)
    end)
  end)

  it("to a batch whose entities somebody else has made stays a refusal", function()
    with_faults({ { operation = "EntityGroupTransaction", kind = "lost-request" } }, function(_, tbl)
      tbl:insert(e("b", 1))
      local ok, err = tbl:batch { { insert = e("a", 1) }, { insert = e("b", 1) } }
      assert.is_nil(ok)
      assert.same({ "EntityAlreadyExists", 2 }, { err.code, err.index })
      assert.is_nil((tbl:get("p", "a")))
    end)
  end)

  it("to a batch that may be repeated: it is, without a nonce", function()
    each_loss("EntityGroupTransaction", 1, function(store, tbl)
      tbl:insert(e("a", 1))
      assert(tbl:batch { { merge = e("a", 2) }, { upsert = e("b", 2) } })
      assert.is_nil(store:usage().GetEntity)
    end)
  end)

  it("to a batch of deletes leaves a doubt, unless there is only one", function()
    each_loss("EntityGroupTransaction", 1, function(_, tbl)
      tbl:insert(e("a", 1))
      tbl:insert(e("b", 1))
      local ok, err = tbl:batch { { delete = e "a" }, { delete = e "b" } }
      assert.is_nil(ok)
      assert.equal("AnswerLost", err.code)
    end)
    each_loss("EntityGroupTransaction", 1, function(_, tbl)
      tbl:insert(e("a", 1))
      assert.same({ true }, (assert(tbl:batch { { delete = e "a" } })))
    end)
  end)

  it("to an insert that has no room for a nonce leaves a doubt", function()
    each_loss("InsertEntity", 1, function(_, tbl)
      local full = e "full"
      for i = 1, 252 do full["p" .. i] = i end
      local ok, err = tbl:insert(full)
      assert.is_nil(ok)
      assert.equal("AnswerLost", err.code)
      assert.equal(252, tbl:get("p", "full").p252)
    end)
  end)
end)

describe("an entity that is full", function()
  local function full()
    local entity = e "full"
    for i = 1, 252 do entity["p" .. i] = i end
    return entity
  end

  it("takes a conditional merge, which then has no nonce", function()
    with_faults({}, function(store, tbl)
      local written = assert(tbl:insert(full()))
      local merged = assert(tbl:merge({ partition = "p", row = "full", p1 = 7 }, { if_match = written.etag }))
      assert.equal(7, tbl:get("p", "full").p1)
      assert.equal(2, store:usage().MergeEntity)
      assert(tbl:batch { { delete = e "other" }, { merge = { partition = "p", row = "full", p1 = 8 } } } == nil)
      assert(tbl:insert(e "other"))
      assert(tbl:batch {
        { delete = e "other" }, { merge = { partition = "p", row = "full", p1 = 8 }, if_match = merged.etag },
      })
      assert.equal(8, tbl:get("p", "full").p1)
      local _, err = tbl:merge({ partition = "p", row = "full", more = 1 }, { if_match = tbl:get("p", "full").etag })
      assert.equal("TooManyProperties", err.code)
    end)
  end)

  it("is left in doubt when the answer is lost", function()
    with_faults({ { operation = "MergeEntity", ordinal = 2, kind = "lost-response" } }, function(_, tbl)
      local written = assert(tbl:insert(full()))
      local ok, err = tbl:merge({ partition = "p", row = "full", p1 = 7 }, { if_match = written.etag })
      assert.is_nil(ok)
      assert.equal("AnswerLost", err.code)
    end)
  end)
end)

describe("a fault at each request of a scenario in turn", function()
  --- What it does, and what it leaves: the same whatever befalls one of its requests.
  local function scenario(tbl)
    local n = assert(tbl:insert(e("n", 0)))
    for i = 1, 3 do n = assert(tbl:merge(e("n", i), { if_match = n.etag })) end
    assert(tbl:upsert(e("u", 1)))
    assert(tbl:batch { { insert = e("b", 1) }, { replace = e("n", 4), if_match = tbl:get("p", "n").etag } })
    assert(tbl:delete("p", "u"))
    local left = {}
    for each in tbl:query() do left[#left + 1] = each.row .. each.n end
    return table.concat(left, " ")
  end

  local function sweep(kind)
    local ordinal = 0
    repeat
      ordinal = ordinal + 1
      local made
      with_faults({ { ordinal = ordinal, kind = kind, seconds = 1 } }, function(store, tbl)
        assert.equal("b1 n4", scenario(tbl), ("%s at request %d"):format(kind, ordinal))
        made = 0
        for _, n in pairs(store:usage()) do made = made + n end
      end, ordinal)
    until made < ordinal
    return ordinal
  end

  for _, kind in ipairs { "lost-request", "lost-response", "delay", "throttle", "error-after-apply" } do
    it(kind, function() assert.is_true(sweep(kind) > 9) end)
  end
end)
