-- Writes what a process has counted, and removes what is no longer kept.
--
-- KEYS: parts, then the index of each of the four kinds of periods, the finest first: names by when their period
-- begins. ARGV: most bytes of all parts, time of the caller in ms, most parts to remove of a kind, bytes for each part
-- besides its own, then for each of the four kinds: ms of a period, ms for which it is kept; then for each part: which
-- of the four kinds it is of, when its period begins, its name and its bytes.
-- Returns {'put', 1 if there is more to remove, else 0}.
--
-- Others may have put anything into these keys: if they are of another type, all are removed. What is too old goes by
-- the caller's clock or the server's, whichever is behind: a clock that is ahead removes nothing.
local bytes_max, now = tonumber(ARGV[1]), tonumber(ARGV[2])
local most, besides = tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
now = math.min(now, tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000))

local known = redis.pcall('HGET', KEYS[1], 'bytes')
for kind = 1, 4 do
  local probe = redis.pcall('ZRANGE', KEYS[1 + kind], 0, 0)
  if probe.err then
    known = probe
  end
end
if type(known) == 'table' and known.err then
  redis.call('UNLINK', unpack(KEYS))
  known = '0'
end
local bytes = type(known) == 'string' and #known <= 16 and string.match(known, '^%d+$') and tonumber(known) or 0

local function remove(kind, names)
  for _, name in ipairs(names) do
    local length = redis.call('HSTRLEN', KEYS[1], name)
    if length > 0 and name ~= 'bytes' then
      bytes = bytes - length - besides
      redis.call('HDEL', KEYS[1], name)
    end
    redis.call('ZREM', KEYS[1 + kind], name)
  end
end

local is_more, kept_max = 0, 0
for kind = 1, 4 do
  local period, kept = tonumber(ARGV[3 + 2 * kind]), tonumber(ARGV[4 + 2 * kind])
  local oldest = now - kept - (now - kept) % period
  kept_max = math.max(kept_max, kept)
  local before = string.format('(%.0f', oldest)
  local names = redis.call('ZRANGE', KEYS[1 + kind], '-inf', before, 'BYSCORE', 'LIMIT', 0, most)
  remove(kind, names)
  if #names == most then
    is_more = 1
  end
end

for at = 13, #ARGV - 3, 4 do
  local kind, name, part = tonumber(ARGV[at]), ARGV[at + 2], ARGV[at + 3]
  local before = redis.call('HSTRLEN', KEYS[1], name)
  if before > 0 then
    bytes = bytes - before - besides
  end
  redis.call('HSET', KEYS[1], name, part)
  redis.call('ZADD', KEYS[1 + kind], ARGV[at + 1], name)
  bytes = bytes + #part + besides
end

for kind = 1, 4 do
  local removed = 0
  while bytes > bytes_max and removed < most do
    local names = redis.call('ZRANGE', KEYS[1 + kind], 0, 15)
    if #names == 0 then
      break
    end
    remove(kind, names)
    removed = removed + #names
  end
end
redis.call('HSET', KEYS[1], 'bytes', string.format('%.0f', math.max(0, bytes)))
for _, key in ipairs(KEYS) do
  redis.call('PEXPIRE', key, string.format('%.0f', kept_max))
end
return {'put', is_more}
