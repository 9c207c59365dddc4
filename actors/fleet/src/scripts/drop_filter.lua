-- Removes a client's filter.
--
-- KEYS: as of make_filter. ARGV: its name, longest place.
-- Returns its place, '' if it has none, or one that is too long.
local length = redis.pcall('HSTRLEN', KEYS[1], 'place')
local place = ''
if type(length) == 'number' and length > 0 and length <= tonumber(ARGV[2]) then
  place = redis.call('HGET', KEYS[1], 'place')
end
redis.call('UNLINK', KEYS[1])
for at = 2, #KEYS do
  redis.pcall('ZREM', KEYS[at], ARGV[1])
end
return place
