-- Reads the manifest, and the records that have changed since a revision, if it is not the known one.
--
-- KEYS: records, changes. ARGV: known manifest, its revision, longest record in bytes, most records, longest manifest.
-- Returns {} if the manifest is the known one, else {manifest, name, bytes, name, bytes, ...}: empty bytes if the record
-- is gone, and one byte in place of what is too long for a record, or for a manifest.
local is_there = redis.call('TYPE', KEYS[1]).ok == 'hash'
local manifest = is_there and redis.call('HGET', KEYS[1], 'manifest') or ''
if manifest == ARGV[1] then
  return {}
end
local longest = tonumber(ARGV[3])
local found = {#manifest <= tonumber(ARGV[5]) and manifest or 'x'}
if not is_there or redis.call('TYPE', KEYS[2]).ok ~= 'zset' then
  return found
end
local names = redis.call('ZRANGE', KEYS[2], '(' .. ARGV[2], '+inf', 'BYSCORE', 'LIMIT', 0, ARGV[4])
for _, name in ipairs(names) do
  local bytes = redis.call('HGET', KEYS[1], name) or ''
  found[#found + 1] = #name <= 256 and name or 'x'
  found[#found + 1] = #bytes <= longest and bytes or 'x'
end
return found
