-- lend
-- Lends tokens of tenants' buckets, by the server's clock.
--
-- KEYS: buckets. ARGV, for each of them: tokens a second, tokens that it holds, thousandths of tokens that were spent
-- without being lent, tokens that are wanted.
-- Returns, for each of them: thousandths of tokens that are lent (what the bucket has, at most what is wanted), and those
-- that it has then, which are negative if more was spent than it had.
--
-- Amounts are thousandths of tokens, so that a millisecond adds a whole number of them. Redis 7 replicates the effects of
-- a script, so that it may read the clock. Others may have put anything into the keys: what is no bucket is a full one.
local debt_max = 2 ^ 52
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local function number(text)
  return type(text) == 'string' and #text <= 17 and string.match(text, '^-?%d+$') and tonumber(text)
end

local answer = {}
for i, key in ipairs(KEYS) do
  local at_arg = (i - 1) * 4
  local rate, capacity = tonumber(ARGV[at_arg + 1]), tonumber(ARGV[at_arg + 2]) * 1000
  local spent, wanted = tonumber(ARGV[at_arg + 3]), tonumber(ARGV[at_arg + 4]) * 1000

  local bucket = redis.pcall('HMGET', key, 'left', 'at')
  if bucket.err then
    redis.call('UNLINK', key)
    bucket = {}
  end
  local left, at = number(bucket[1]), number(bucket[2])
  -- A new bucket is full. A clock that went back adds nothing.
  if left and at then
    left = math.min(capacity, left + math.max(0, now - at) * rate)
  else
    left = capacity
  end
  left = math.max(-debt_max, left - spent)
  local lent = math.max(0, math.min(left, wanted))
  left = left - lent
  redis.call('HSET', key, 'left', string.format('%.0f', left), 'at', string.format('%.0f', now))
  -- A bucket that is full again need not be kept.
  redis.call('PEXPIRE', key, string.format('%.0f', math.ceil((capacity - left) / rate) + 1000))
  answer[#answer + 1] = lent
  answer[#answer + 1] = left
end
return answer
