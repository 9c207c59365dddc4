-- Reads the entry after a position, however large those after it are.
--
-- KEYS: entries. ARGV: the position, longest entry in bytes.
-- Returns {id, entry}, or {} if there is none. What cannot be an entry of a fleet, or is too long for one, is empty.
local found = redis.call('XRANGE', KEYS[1], '(' .. ARGV[1], '+', 'COUNT', 1)[1]
if not found then
  return {}
end
local fields = found[2]
if #fields == 2 and fields[1] == 'e' and #fields[2] <= tonumber(ARGV[2]) then
  return {found[1], fields[2]}
end
return {found[1], ''}
