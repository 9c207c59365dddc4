-- Writes records and entries of the audit, if the store still has the manifest that the writer knows.
--
-- KEYS: records, changes, audit of changes, of logins, of refusals. ARGV: known manifest, empty if there is none; new
-- manifest; its revision; 1 to remove all other records; changes that are kept; entries that are kept of each of the
-- three; number of records; for each one its name and its bytes, empty if it is gone; then for each entry which of the
-- three it belongs to, its number and its bytes.
-- Returns {'committed', revision}, or {'conflict', 0} if another process has written meanwhile.
local known = redis.pcall('HGET', KEYS[1], 'manifest') or ''
if known ~= ARGV[1] then
  return {'conflict', 0}
end
if ARGV[4] == '1' then
  redis.call('UNLINK', KEYS[1], KEYS[2])
end
local at = 9
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
while ARGV[at] do
  local kind = tonumber(ARGV[at])
  -- What others have put there is no reason to refuse the change itself.
  redis.pcall('XADD', KEYS[2 + kind], 'MAXLEN', '~', ARGV[5 + kind], ARGV[at + 1] .. '-0', 'e', ARGV[at + 2])
  at = at + 3
end
return {'committed', tonumber(ARGV[3])}
