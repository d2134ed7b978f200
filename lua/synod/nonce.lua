-- nonce: a text that nobody else has drawn, by which a write is known to be ours.
--
--   local nonce = require "synod.nonce"
--   local id = nonce(16)                -- 32 hexadecimal digits

local core = require "synod.core"

---@param bytes integer  how much of it is random
---@return string  twice as many hexadecimal digits, in lower case
return function(bytes)
  return (core.random_bytes(bytes):gsub(".", function(c) return ("%02x"):format(c:byte()) end))
end
