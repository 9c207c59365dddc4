-- Puts items of the state, by hash. There are two halves: when the newer one is full, the older one is emptied and becomes
-- the newer one. So they have a bound, and what is in use stays.
--
-- KEYS: half 0, half 1, what is known of both. ARGV: bytes of a half, then a hash and an item in turn.
-- Returns {'put', number of items that were not there}.
--
-- Others may have put anything into these keys: what is no hash is emptied, and what is under a hash is overwritten.
local known = redis.pcall('HMGET', KEYS[3], 'newer', 'bytes')
if known.err then
  redis.call('UNLINK', KEYS[3])
  known = {}
end
local newer = known[1] == '1' and 1 or 0
local bytes = type(known[2]) == 'string' and tonumber(known[2]) or 0
-- Not a number is not below anything.
if not (bytes >= 0 and bytes < tonumber(ARGV[1])) then
  newer, bytes = 1 - newer, 0
  redis.call('UNLINK', KEYS[newer + 1])
end
local here = KEYS[newer + 1]
local put = 0
for at = 2, #ARGV - 1, 2 do
  local is_new = redis.pcall('HSET', here, ARGV[at], ARGV[at + 1])
  if type(is_new) == 'table' and is_new.err then
    if string.match(is_new.err, '^OOM') then
      return redis.error_reply(is_new.err)
    end
    redis.call('UNLINK', here)
    is_new = redis.call('HSET', here, ARGV[at], ARGV[at + 1])
  end
  if is_new == 1 then
    put = put + 1
    -- What Redis needs besides: some 100 bytes for each.
    bytes = bytes + #ARGV[at + 1] + 100
  end
end
redis.call('HSET', KEYS[3], 'newer', newer, 'bytes', string.format('%.0f', bytes))
return {'put', put}
