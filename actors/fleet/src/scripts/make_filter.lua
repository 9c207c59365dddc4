-- make_filter
-- Adds a client's filter, unless there are too many.
--
-- KEYS: the filter, a hash: criteria, place; for each size as which filters count, the names of all that do, by when they
-- expire; the same for those of its tenant. ARGV: its name, criteria, place, bytes for a filter besides its
-- criteria, ms for which it is kept, most names that are tidied, what the keys of filters begin with; most filters and
-- bytes of all, the same of a tenant; then the sizes, the smallest first.
-- Returns {'made', 0}, {'full', 0}, or {'tenant_full', 0}.
--
-- Counts are those of names that have not expired, so that there is no sum that could be wrong. If there is no room, some
-- names are looked at, and forgotten if there is no such filter. A key of another type is emptied.
local besides, kept, tidied = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local sizes = #ARGV - 11
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local first, last = string.format('(%.0f', now), string.format('%.0f', now + kept)

-- The last size takes what is larger too.
local size = sizes
for at = sizes, 1, -1 do
  if #ARGV[2] + besides <= tonumber(ARGV[11 + at]) then
    size = at
  end
end

-- The names that a key has, without those that have expired, or that expire later than any may.
local function count(key)
  local count = redis.pcall('ZCOUNT', key, first, last)
  if type(count) == 'table' then
    redis.call('UNLINK', key)
    return 0
  end
  return count
end

local function forget(key, names)
  for _, name in ipairs(names) do
    redis.call('ZREM', key, name)
  end
end

local function is_full(from, filters_max, bytes_max)
  local filters, bytes = 1, tonumber(ARGV[11 + size])
  for at = 1, sizes do
    local found = count(KEYS[from + at])
    filters, bytes = filters + found, bytes + found * tonumber(ARGV[11 + at])
  end
  return filters > tonumber(filters_max) or bytes > tonumber(bytes_max)
end

-- Forgets some names of which there is no filter.
local function tidy(from)
  for at = 1, sizes do
    local key = KEYS[from + at]
    for _, name in ipairs(redis.call('ZRANDMEMBER', key, tidied)) do
      if redis.pcall('HEXISTS', ARGV[7] .. name, 'place') ~= 1 then
        redis.call('ZREM', key, name)
      end
    end
  end
end

local function has_room(from, filters_max, bytes_max)
  if not is_full(from, filters_max, bytes_max) then
    return true
  end
  tidy(from)
  return not is_full(from, filters_max, bytes_max)
end

if not has_room(1 + sizes, ARGV[10], ARGV[11]) then
  return {'tenant_full', 0}
end
if not has_room(1, ARGV[8], ARGV[9]) then
  return {'full', 0}
end
redis.call('UNLINK', KEYS[1])
redis.call('HSET', KEYS[1], 'criteria', ARGV[2], 'place', ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[5])
for _, key in ipairs({ KEYS[1 + size], KEYS[1 + sizes + size] }) do
  redis.call('ZADD', key, last, ARGV[1])
  forget(key, redis.call('ZRANGE', key, '-inf', first:sub(2), 'BYSCORE', 'LIMIT', 0, tidied))
  forget(key, redis.call('ZRANGE', key, '(' .. last, '+inf', 'BYSCORE', 'LIMIT', 0, tidied))
  redis.call('PEXPIRE', key, ARGV[5])
end
return {'made', 0}
