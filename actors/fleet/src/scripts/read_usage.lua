-- Reads parts of what processes have counted, of one kind of periods, in the order in which these begin.
--
-- KEYS: parts of that kind, and the index of their names. ARGV: when the first period begins, at the earliest; before
-- when the last one begins; name of the part after which this read begins, if its period begins there, or nothing;
-- most parts; bytes after which the read ends; bytes of the longest part.
-- Returns {is_more, from, after, name, part, name, part, ...}: '1' if there are more, for which the next read is from
-- `from` and `after`. One byte is in place of what is too long for a part. Names without a part, and those that are too
-- long for one, are removed: a foreign writer has put them there.
local from, to, after = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local most, bytes_max, longest = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])

-- The place in the index at which the read begins: if the part is gone, with the first one of its period.
local first
local score = after ~= '' and redis.call('ZSCORE', KEYS[2], after)
if score and tonumber(score) == tonumber(from) then
  first = redis.call('ZRANK', KEYS[2], after) + 1
else
  first = redis.call('ZCOUNT', KEYS[2], '-inf', '(' .. from)
end

local found, bytes, is_more = { '0', from, after }, 0, false
local names = redis.call('ZRANGE', KEYS[2], first, first + most - 1, 'WITHSCORES')
for at = 1, #names, 2 do
  local name, start = names[at], names[at + 1]
  is_more = tonumber(start) < to
  if not is_more or bytes >= bytes_max then
    break
  end
  local part = redis.call('HGET', KEYS[1], name)
  if part and #name <= 256 then
    found[2], found[3] = start, name
    found[#found + 1] = name
    found[#found + 1] = #part <= longest and part or 'x'
    bytes = bytes + #part
  else
    redis.call('ZREM', KEYS[2], name)
  end
  -- After the last one there may be others.
  is_more = #names == 2 * most
end
if is_more then
  found[1] = '1'
end
return found
