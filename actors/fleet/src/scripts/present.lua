-- present
-- Notes that a process is there, and answers who is.
--
-- KEYS: processes, a hash: owner => 'UNTIL RECORD', with UNTIL in milliseconds of the server's clock. ARGV: owner, its
-- record, or '' if it ends, ms for which the record counts, most ms for which any may count, most processes, most bytes of
-- a record.
-- Returns the records that count, the caller's too, and removes the others. Who wrote them, and when, this does not know.
--
-- Others may have put anything into the key: of another type, or with too many fields, it is removed, and all that are
-- there write again.
local owner, record = ARGV[1], ARGV[2]
local counts, counts_max = tonumber(ARGV[3]), tonumber(ARGV[4])
local count_max, bytes_max = tonumber(ARGV[5]), tonumber(ARGV[6])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local count = redis.pcall('HLEN', KEYS[1])
if type(count) ~= 'number' or count > count_max then
  redis.call('UNLINK', KEYS[1])
end
if record == '' then
  redis.call('HDEL', KEYS[1], owner)
else
  redis.call('HSET', KEYS[1], owner, string.format('%.0f ', now + counts) .. record)
end

local present, gone = {}, {}
local fields = redis.call('HKEYS', KEYS[1])
for _, name in ipairs(fields) do
  local value = ''
  if redis.call('HSTRLEN', KEYS[1], name) <= bytes_max + 20 then
    value = redis.call('HGET', KEYS[1], name)
  end
  local at, text = string.match(value, '^(%d+) (.*)$')
  local left = (tonumber(at or '') or 0) - now
  if left > 0 and left <= counts_max and #present < count_max then
    present[#present + 1] = text
  else
    gone[#gone + 1] = name
  end
end
for _, name in ipairs(gone) do
  redis.call('HDEL', KEYS[1], name)
end
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return present
