-- Adds a want, and drops the oldest of too many and those that nobody waits for any more. One that is there already counts
-- as new.
--
-- KEYS: wants, by the time when they were added. ARGV: the want, number of wants that are kept, milliseconds for which one
-- is kept.
-- Returns {'wanted', number of wants that wait}.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local added = redis.pcall('ZADD', KEYS[1], now, ARGV[1])
if type(added) == 'table' then
  -- Others have put something else there.
  redis.call('UNLINK', KEYS[1])
  redis.call('ZADD', KEYS[1], now, ARGV[1])
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[3])
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -ARGV[2] - 1)
-- The last ones are dropped by their expiry.
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {'wanted', redis.call('ZCARD', KEYS[1])}
