-- HTTP(S) requests, without blocking the other tasks.

local core = require "synod.core"

local http = {}

---@class synod.http.Request
---@field url string                       http:// or https://, percent-encoded
---@field method? string                   "GET" (the default), "PUT", ...
---@field headers? table<string, string|number>
---@field body? string
---@field timeout? number                  seconds for all of it; 30 unless told
---@field max_body? integer                bytes of an answer's body that are taken; 256 MiB unless told

--- Sends a request and waits for its answer, whatever its status is. Redirects of GET and HEAD are followed (10 at
--- most); certificates are verified against the system's list; proxies come from the environment (https_proxy, ...),
--- except for the loopback.
---
--- A cancel abandons the request: the server may or may not have carried it out.
---@type fun(request: synod.http.Request): integer?, table<string, string>, string
--- Gives the status (nil when no answer came: the second result is then the err), the headers (names in lower case, the
--- values of one name joined by ", ") and the body.
http.http = core.http

return http
