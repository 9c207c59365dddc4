-- Moves a client's filter, if it is still where it was.
--
-- KEYS: the filter. ARGV: its place, the new one, ms of the store's clock after which it does not move, or '' if it moves
-- whenever that is.
-- Returns {'moved', 0}, {'other', 0} if it is in another place or gone, or {'late', 0}.
--
-- Whoever sent this waits no longer than that: a store that was paused must not move a filter for an answer that was
-- refused meanwhile.
local length = redis.pcall('HSTRLEN', KEYS[1], 'place')
if length ~= #ARGV[1] or redis.call('HGET', KEYS[1], 'place') ~= ARGV[1] then
  return {'other', 0}
end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
if ARGV[3] ~= '' and now > tonumber(ARGV[3]) then
  return {'late', 0}
end
redis.call('HSET', KEYS[1], 'place', ARGV[2])
return {'moved', 0}
