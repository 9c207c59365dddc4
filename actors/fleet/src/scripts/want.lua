-- Adds a want, and drops the oldest of too many.
--
-- KEYS: wants. ARGV: the want, number of wants that are kept.
-- Returns {'wanted', number of wants that wait}.
local length = redis.pcall('LPUSH', KEYS[1], ARGV[1])
if type(length) == 'table' then
  -- Others have put something else there.
  redis.call('UNLINK', KEYS[1])
  length = redis.call('LPUSH', KEYS[1], ARGV[1])
end
redis.call('LTRIM', KEYS[1], 0, ARGV[2] - 1)
return {'wanted', math.min(length, tonumber(ARGV[2]))}
