-- Lends tokens of a tenant's bucket, by the server's clock.
--
-- KEYS: bucket. ARGV: tokens a second, tokens that the bucket holds, tokens that are wanted.
-- Returns {'lent', thousandths of tokens}: what the bucket has, at most what is wanted.
--
-- Amounts are thousandths of tokens, so that a millisecond adds a whole number of them. Redis 7 replicates the effects of
-- a script, so that it may read the clock.
local rate, capacity, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]) * 1000, tonumber(ARGV[3]) * 1000
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local bucket = redis.call('HMGET', KEYS[1], 'left', 'at')
local left = tonumber(bucket[1] or '')
local at = tonumber(bucket[2] or '')
-- A new bucket is full. A clock that went back adds nothing.
if left and at then
  left = math.min(capacity, left + math.max(0, now - at) * rate)
else
  left = capacity
end
local lent = math.max(0, math.min(left, wanted))
redis.call('HSET', KEYS[1], 'left', string.format('%.0f', left - lent), 'at', string.format('%.0f', now))
-- A bucket that is full again need not be kept.
redis.call('PEXPIRE', KEYS[1], math.ceil(capacity / rate) + 1000)
return {'lent', lent}
