-- Reads a client's filter, and keeps it for longer.
--
-- KEYS: as of make_filter. ARGV: its name, 1 if its criteria are wanted, longest criteria, longest place, bytes for a
-- filter besides its criteria, ms for which it is kept, ms after which a question is noted again; then the sizes, the
-- smallest first.
-- Returns {ms of the store's clock, place, criteria}: '' for what is not there, is too long, or is not wanted.
--
-- A question is noted now and then, so that most of them write nothing. A name that the counts have lost is there again
-- then.
local besides, kept = tonumber(ARGV[5]), tonumber(ARGV[6])
local sizes = #ARGV - 7
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local function get(field, longest)
  local length = redis.pcall('HSTRLEN', KEYS[1], field)
  if type(length) ~= 'number' or length == 0 or length > tonumber(longest) then
    return ''
  end
  return redis.call('HGET', KEYS[1], field)
end

local place = get('place', ARGV[4])
local left = place ~= '' and redis.call('PTTL', KEYS[1])
if left and (left > kept or left < kept - tonumber(ARGV[7])) then
  local bytes, size = redis.call('HSTRLEN', KEYS[1], 'criteria') + besides, sizes
  for at = sizes, 1, -1 do
    if bytes <= tonumber(ARGV[7 + at]) then
      size = at
    end
  end
  redis.call('PEXPIRE', KEYS[1], ARGV[6])
  for _, key in ipairs({ KEYS[1 + size], KEYS[1 + sizes + size] }) do
    local added = redis.pcall('ZADD', key, string.format('%.0f', now + kept), ARGV[1])
    -- A store without memory still answers. A key of another type is emptied when a filter is made.
    if type(added) == 'number' then
      redis.call('PEXPIRE', key, ARGV[6])
    end
  end
end
return {now, place, ARGV[2] == '1' and get('criteria', ARGV[3]) or ''}
