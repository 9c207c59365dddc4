-- Gets items of the state by hash: trie nodes and codes. They prove themselves by their hash, so that whoever wrote them
-- need not be believed.
--
-- KEYS: half 0, half 1, what is known of both. ARGV: bytes of the longest item, bytes of all together, hashes.
-- Returns an item or false for each hash: one that does not fit is as if it were not there. What is only in the older half
-- is moved to the newer one: it is in use.
local newer = redis.pcall('HGET', KEYS[3], 'newer') == '1' and 1 or 0
local here, there = KEYS[newer + 1], KEYS[2 - newer]
local longest, left = tonumber(ARGV[1]), tonumber(ARGV[2])
local items, moved = {}, 0
for at = 3, #ARGV do
  local item = redis.pcall('HGET', here, ARGV[at])
  if type(item) ~= 'string' then
    item = redis.pcall('HGET', there, ARGV[at])
    if type(item) == 'string' and #item <= longest then
      local set = redis.pcall('HSET', here, ARGV[at], item)
      if set == 1 then
        redis.pcall('HDEL', there, ARGV[at])
        moved = moved + #item + 100
      end
    end
  end
  if type(item) == 'string' and #item <= longest and #item <= left then
    left = left - #item
    items[at - 2] = item
  else
    items[at - 2] = false
  end
end
if moved > 0 then
  redis.pcall('HINCRBY', KEYS[3], 'bytes', moved)
end
return items
