-- What transactions cost: to which class the service counts each operation, and an example of the classes' prices.
--
-- The classes are those of a general purpose v2 account, as the service documents them (2025-05: "Map each REST
-- operation to a price" for blobs). The prices are an example, of the order of the list prices at that date; they
-- differ by region, redundancy and contract. `--prices FILE` gives others: a Lua file that returns such a table.

local prices = {}

--- The class of each operation.
prices.class = {
  CreateContainer = "list", ListContainers = "list", ListBlobs = "list",
  PutBlob = "write", AppendBlock = "write", PutBlock = "write", PutBlockList = "write", CopyBlob = "write",
  PutBlobFromURL = "write", CopyBlobFromURL = "write", PutPage = "write",
  GetBlob = "read",
  GetContainerProperties = "other", SetContainerMetadata = "other", GetBlobProperties = "other",
  SetBlobMetadata = "other", SetBlobProperties = "other", GetBlockList = "other", LeaseBlob = "other",
  LeaseContainer = "other", AbortCopyBlob = "other",
  DeleteContainer = "free", DeleteBlob = "free",
  CreateQueue = "queue_1", DeleteQueue = "queue_1", ListQueues = "queue_1", SetQueueMetadata = "queue_1",
  PutMessage = "queue_1", UpdateMessage = "queue_1", DeleteMessage = "queue_1", ClearMessages = "queue_1",
  GetMessages = "queue_1", -- one that finds nothing is class 2, which an estimate need not know
  GetQueueMetadata = "queue_2", PeekMessages = "queue_2",
  CreateTable = "table", DeleteTable = "table", QueryTables = "table", InsertEntity = "table", GetEntity = "table",
  QueryEntities = "table", UpdateEntity = "table", MergeEntity = "table", InsertOrReplaceEntity = "table",
  InsertOrMergeEntity = "table", DeleteEntity = "table", EntityGroupTransaction = "table",
}

--- What is not billed, whatever the operation: requests that never arrived, or whose credentials were refused.
prices.unbilled = { unsent = true, denied = true }

---@class cli.Prices
---@field date string        when they were looked up
---@field region string      where they hold
---@field currency string
---@field per_10000 table<string, number>  by class

---@type cli.Prices
prices.example = {
  date = "2025-05",
  region = "an example: East US, general purpose v2, hot, locally redundant",
  currency = "USD",
  per_10000 = {
    write = 0.05, list = 0.05, read = 0.004, other = 0.004, free = 0,
    queue_1 = 0.004, queue_2 = 0.004, table = 0.00036,
  },
}

local TEXTS = { "date", "region", "currency" }

local function merged(path, given)
  local result = { date = "undated", region = path, currency = prices.example.currency, per_10000 = {} }
  for field in next, given do
    if field ~= "per_10000" and not result[field] then return nil, ("unknown field '%s'"):format(field) end
  end
  for _, field in ipairs(TEXTS) do
    local text = given[field]
    if text ~= nil and type(text) ~= "string" then return nil, ("'%s' must be a text"):format(field) end
    result[field] = text or result[field]
  end
  if type(given.per_10000) ~= "table" then return nil, "it must have a table per_10000" end
  for class, price in next, prices.example.per_10000 do result.per_10000[class] = price end
  for class, price in next, given.per_10000 do
    if not result.per_10000[class] then return nil, ("per_10000 has no class '%s'"):format(class) end
    if type(price) ~= "number" or not (price >= 0 and price < math.huge) then
      return nil, ("the price of '%s' must be a number from 0"):format(class)
    end
    result.per_10000[class] = price
  end
  return result
end

--- The prices of a file; a class that it leaves out costs what it does in the example.
---@param path string
---@return cli.Prices|nil prices, string? problem
function prices.load(path)
  local chunk, problem = loadfile(path, "t", {})
  if not chunk then return nil, ("--prices: %s"):format(problem) end
  local ok, given = pcall(chunk)
  if not ok then return nil, ("--prices: %s"):format(given) end
  if type(given) ~= "table" then return nil, ("--prices: %s must return a table"):format(path) end
  local result
  result, problem = merged(path, given)
  return result, problem and ("--prices: %s: %s"):format(path, problem)
end

--- What transactions of an operation cost.
---@param from cli.Prices
---@param operation string
---@param count integer|number
---@return number
function prices.cost(from, operation, count)
  return count / 10000 * (from.per_10000[prices.class[operation] or "other"])
end

return prices
