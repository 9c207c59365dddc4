-- Writes what a process has counted, and removes what is no longer kept or has no room.
--
-- KEYS: bytes by kind; then for each of the four kinds of periods, the finest first: its parts, and the index of their
-- names by when their period begins. ARGV: time of the caller in ms, most parts of a kind that one call removes because
-- they are old, bytes for each part besides its own, ms by which a clock may be ahead; then for each kind: ms of a
-- period, ms for which it is kept, most bytes of all its parts; then for each part: which of the four kinds it is of,
-- when its period begins, its name and its bytes.
-- Returns a list: 1 if there is more to remove that is old, else 0; then for each kind, how many parts had no room.
--
-- A foreign writer may have put anything into these keys. Each call makes parts, index and bytes of a kind agree again,
-- or removes all of the kind if they disagree grossly. What is too old is so by the caller's clock and the server's,
-- whichever is behind: a clock that is ahead removes nothing.
local now, most, besides = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local server_now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local too_late = math.max(now, server_now) + tonumber(ARGV[4])
now = math.min(now, server_now)

-- Most parts whose bytes are counted again one by one: some 20 ms.
local counted_max = 32768

local kinds = {}
for at = 1, 4 do
  kinds[at] = {
    parts = KEYS[2 * at],
    index = KEYS[2 * at + 1],
    period = tonumber(ARGV[2 + 3 * at]),
    kept = tonumber(ARGV[3 + 3 * at]),
    bytes_max = tonumber(ARGV[4 + 3 * at]),
    bytes = 0,
    written = {},
    written_count = 0,
    removed = 0,
  }
end

local function remove(kind, name)
  local length = redis.call('HSTRLEN', kind.parts, name)
  if redis.call('HDEL', kind.parts, name) == 1 then
    kind.bytes = kind.bytes - length - besides
  end
  redis.call('ZREM', kind.index, name)
end

-- Counts the bytes of a kind again; of more parts than that it is what some of them have on average.
local function count_again(kind)
  local parts = redis.call('HLEN', kind.parts)
  local names = parts <= counted_max and redis.call('HKEYS', kind.parts)
    or redis.call('HRANDFIELD', kind.parts, most)
  local bytes = 0
  for _, name in ipairs(names) do
    bytes = bytes + redis.call('HSTRLEN', kind.parts, name) + besides
  end
  kind.bytes = math.floor(bytes * parts / math.max(1, #names))
end

-- Makes parts, index and bytes of a kind agree.
local function mend(at, kind)
  local parts, names = redis.pcall('HLEN', kind.parts), redis.pcall('ZCARD', kind.index)
  local is_other = type(parts) ~= 'number' or type(names) ~= 'number'
  if is_other or parts * besides > kind.bytes_max or names > 2 * parts + most or parts > 2 * names + most then
    redis.call('UNLINK', kind.parts, kind.index)
    return
  end
  local known = redis.pcall('HGET', KEYS[1], at)
  if type(known) == 'table' then
    redis.call('UNLINK', KEYS[1])
  end
  kind.bytes = type(known) == 'string' and #known <= 16 and string.match(known, '^%d+$') and tonumber(known) or 0
  if parts ~= names then
    -- Removes what is in one of them alone, if it is few; else the next calls find the rest.
    for _, name in ipairs(redis.call('HRANDFIELD', kind.parts, most)) do
      if not redis.call('ZSCORE', kind.index, name) then
        remove(kind, name)
      end
    end
    for _, name in ipairs(redis.call('ZRANDMEMBER', kind.index, most)) do
      if redis.call('HEXISTS', kind.parts, name) == 0 then
        remove(kind, name)
      end
    end
  end
  if parts ~= names or parts == 0 or kind.bytes < parts * besides then
    count_again(kind)
  end
end

local is_more, kept_max = 0, 0
for at, kind in ipairs(kinds) do
  mend(at, kind)
  kept_max = math.max(kept_max, kind.kept)
  local oldest = now - kind.kept - (now - kind.kept) % kind.period
  local before, after = string.format('(%.0f', oldest), string.format('(%.0f', too_late)
  for _, range in ipairs({ { '-inf', before }, { after, '+inf' } }) do
    local names = redis.call('ZRANGE', kind.index, range[1], range[2], 'BYSCORE', 'LIMIT', 0, most)
    for _, name in ipairs(names) do
      remove(kind, name)
    end
    if #names == most then
      is_more = 1
    end
  end
end

for at = 17, #ARGV - 3, 4 do
  local kind, name, part = kinds[tonumber(ARGV[at])], ARGV[at + 2], ARGV[at + 3]
  local before = redis.call('HSTRLEN', kind.parts, name)
  if redis.call('HSET', kind.parts, name, part) == 0 then
    kind.bytes = kind.bytes - before - besides
  end
  redis.call('ZADD', kind.index, ARGV[at + 1], name)
  kind.bytes = kind.bytes + #part + besides
  kind.written[name] = true
  kind.written_count = kind.written_count + 1
end

-- Removes the oldest parts that this call has not written, down to a little less than the bound, so that the bytes need
-- not be counted at each call. So many are more than one call writes.
local function make_room(kind)
  if kind.bytes <= kind.bytes_max then
    return
  end
  count_again(kind)
  local room = kind.bytes > kind.bytes_max and kind.bytes_max - math.floor(kind.bytes_max / 64) or kind.bytes_max
  while kind.bytes > room and kind.removed < 8 * most do
    local has_others = false
    for _, name in ipairs(redis.call('ZRANGE', kind.index, 0, 15 + kind.written_count)) do
      if not kind.written[name] and kind.bytes > room then
        has_others = true
        remove(kind, name)
        kind.removed = kind.removed + 1
      end
    end
    if not has_others then
      return
    end
  end
end

local answer = { is_more }
for at, kind in ipairs(kinds) do
  make_room(kind)
  redis.call('HSET', KEYS[1], at, string.format('%.0f', math.max(0, kind.bytes)))
  answer[1 + at] = kind.removed
end
for _, key in ipairs(KEYS) do
  redis.call('PEXPIRE', key, string.format('%.0f', kept_max))
end
return answer
