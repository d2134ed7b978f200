-- Large bodies in a walk: what a reader gives and what a writer makes, each as one call. A script that a walk shows has
-- the same functions in it.
--
--   bodies.write(b, data, { block = 8, if_match = ... }) -> props | nil, err     portions of another size than blocks
--   bodies.read(b, { chunk = 3, offset = 2 }) -> pieces, props | nil, err

local bodies = {}

--- What a failed write tells is not compared: blocks are on their way while it is called. `close` tells it.
bodies.SOURCE = [[
local function write(b, data, options)
  local w <close> = b:writer(options)
  for from = 1, #data, 5 do w:write(data:sub(from, from + 4)) end
  return w:close()
end
local function read(b, options)
  local r, pieces, piece, err = b:reader(options), {}, nil, nil
  repeat
    piece, err = r:read()
    pieces[#pieces + 1] = piece
  until not piece
  if err then return nil, err end
  return pieces, r.props
end
]]

local made = assert(load(bodies.SOURCE .. "return { write = write, read = read }", "=walk_bodies"))()
bodies.write, bodies.read = made.write, made.read

return bodies
