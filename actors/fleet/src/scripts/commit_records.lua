-- Writes records and entries of the audit, if the store still has the manifest that the writer knows.
--
-- KEYS: records, changes, audit of changes, of logins, of refusals. ARGV: known manifest, empty if there is none; new
-- manifest; its revision; 1 to remove all other records; changes that are kept; entries that are kept of each of the
-- three; longest manifest in bytes; number of records; for each one its name and its bytes, empty if it is gone; then
-- for each entry which of the three it belongs to, its number and its bytes.
-- Returns {'committed', N}, or {'conflict', 0} if another process has written meanwhile. N is 1 if an audit had what the
-- fleet did not write, so that nothing could be added, and was begun again; else 0.
local is_there = redis.call('TYPE', KEYS[1]).ok == 'hash'
local known = is_there and redis.call('HGET', KEYS[1], 'manifest') or ''
if #known > tonumber(ARGV[9]) then
  known = 'x' -- as it is read
end
if known ~= ARGV[1] then
  return {'conflict', 0}
end
-- Foreign types are deleted before anything is written: a command that failed later would leave half a commit.
if ARGV[4] == '1' or not is_there then
  redis.call('UNLINK', KEYS[1], KEYS[2])
elseif redis.call('TYPE', KEYS[2]).ok ~= 'zset' then
  redis.call('UNLINK', KEYS[2])
end
-- What is ahead of all writes would push out what they add.
redis.call('ZREMRANGEBYSCORE', KEYS[2], '(' .. ARGV[3], '+inf')
local at = 10
for _ = 1, tonumber(ARGV[at]) do
  local name, bytes = ARGV[at + 1], ARGV[at + 2]
  if bytes == '' then
    redis.call('HDEL', KEYS[1], name)
  else
    redis.call('HSET', KEYS[1], name, bytes)
  end
  redis.call('ZADD', KEYS[2], ARGV[3], name)
  at = at + 2
end
redis.call('ZREMRANGEBYRANK', KEYS[2], 0, -1 - tonumber(ARGV[5]))
redis.call('HSET', KEYS[1], 'manifest', ARGV[2])
at = at + 1
local begun_again = 0
while ARGV[at] do
  local audit, kept = KEYS[2 + tonumber(ARGV[at])], ARGV[5 + tonumber(ARGV[at])]
  local id, entry = ARGV[at + 1] .. '-0', ARGV[at + 2]
  local added = redis.pcall('XADD', audit, 'MAXLEN', '~', kept, id, 'e', entry)
  -- Another type, or a higher number, up to the highest one.
  if type(added) == 'table' and not added.err:find('OOM') then
    redis.call('UNLINK', audit)
    redis.pcall('XADD', audit, 'MAXLEN', '~', kept, id, 'e', entry)
    begun_again = 1
  end
  at = at + 3
end
return {'committed', begun_again}
