-- Drops items of the state that are false: their hash is another one.
--
-- KEYS: half 0, half 1. ARGV: hashes.
-- Returns {'dropped', number of items that were there}.
local dropped = 0
for _, half in ipairs(KEYS) do
  for _, hash in ipairs(ARGV) do
    if redis.pcall('HDEL', half, hash) == 1 then
      dropped = dropped + 1
    end
  end
end
return {'dropped', dropped}
