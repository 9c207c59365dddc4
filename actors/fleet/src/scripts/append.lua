-- Appends an entry, if its writer holds the lease, no newer epoch has begun, and the entry before it is there.
--
-- KEYS: lease, fence, entries. ARGV: owner, epoch, sequence, entry, sequence of the oldest entry to keep, number of
-- entries to keep, 1 if a snapshot begins with it.
-- Returns {'appended', 1 if a replica wants a snapshot, else 0}, also if it was appended before;
-- {'fenced', newest epoch}; {'gap', sequence of the newest entry}, because the store has lost some; or {'blocked', 0}:
-- something else is in its place.
local owner, epoch, sequence = ARGV[1], ARGV[2], tonumber(ARGV[3])
local fence = redis.call('HMGET', KEYS[2], 'epoch', 'sequence', 'wanted')
if redis.call('GET', KEYS[1]) ~= epoch .. ':' .. owner or fence[1] ~= epoch then
  return {'fenced', tonumber(fence[1] or '0') or 0}
end

local last = tonumber(fence[2] or '-1') or -1
local wanted = fence[3] and 1 or 0
if sequence <= last then
  -- Only the holder of the lease writes in this epoch: the answer to the same entry was lost. If the entry is not
  -- there, somebody else has raised the sequence.
  local id = epoch .. '-' .. ARGV[3]
  local found = redis.pcall('XRANGE', KEYS[3], id, id)[1]
  if type(found) == 'table' and found[2][2] == ARGV[4] then
    return {'appended', wanted}
  end
  return {'blocked', 0}
end
if sequence ~= last + 1 then
  return {'gap', last}
end

-- Redis accepts no id that is not above all before it.
local id = redis.pcall('XADD', KEYS[3], epoch .. '-' .. ARGV[3], 'e', ARGV[4])
if type(id) == 'table' and id.err then
  if string.match(id.err, '^OOM') then
    return redis.error_reply(id.err)
  end
  return {'blocked', 0}
end
redis.call('HSET', KEYS[2], 'sequence', ARGV[3])
if ARGV[7] == '1' then
  redis.call('HDEL', KEYS[2], 'wanted')
  wanted = 0
end
redis.call('XTRIM', KEYS[3], 'MINID', '=', epoch .. '-' .. ARGV[5])
redis.call('XTRIM', KEYS[3], 'MAXLEN', '=', ARGV[6])
return {'appended', wanted}
