-- Where the storage emulator answers otherwise than the service: one row each. We follow the service; a spec that runs
-- on both looks here for what the emulator says instead.
--
--   call, state   what is asked, and of what
--   ours          what the service says, and we
--   azurite       what Azurite says
--   spec, case    where it is checked: both columns are then the outcomes of that case, in order

return {
  {
    call = "MergeEntity", state = "the entity would have more than 252 properties",
    ours = { "ok", "TooManyProperties 400", "nil" },
    azurite = { "ok", "ok", 1 },
    spec = "spec/store/table_spec.lua", case = "a merge that makes too many properties",
  },
  {
    call = "EntityGroupTransaction", state = "at an address without a path, http://ACCOUNT.localhost",
    ours = "202",
    azurite = "500 without a word: it looks for the account in the path of each operation",
  },
}
