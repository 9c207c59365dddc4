-- Reads parts of what processes have counted, of one kind of periods, in the order in which these begin.
--
-- KEYS: parts, index of that kind. ARGV: when the first period begins, at the earliest; before when the last one
-- begins; parts of the first period that are left out, because they were read; most parts; bytes after which the read
-- ends; bytes of the longest part.
-- Returns {is_more, from, skip, name, part, name, part, ...}: '1' if there are more, after which the next read is from
-- `from` and leaves out `skip`. One byte is in place of what is too long for a part.
local most, bytes_max, longest = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local found = {'0', ARGV[1], ARGV[3]}
local names = redis.call(
  'ZRANGE', KEYS[2], ARGV[1], '(' .. ARGV[2], 'BYSCORE', 'LIMIT', ARGV[3], most, 'WITHSCORES')
local from, skip, bytes = tonumber(ARGV[1]), tonumber(ARGV[3]), 0
for at = 1, #names, 2 do
  local name, start = names[at], tonumber(names[at + 1])
  if bytes >= bytes_max then
    found[1] = '1'
    break
  end
  if start == from then
    skip = skip + 1
  else
    from, skip = start, 1
  end
  local part = redis.call('HGET', KEYS[1], name) or ''
  found[#found + 1] = #name <= 256 and name or 'x'
  found[#found + 1] = #part <= longest and part or 'x'
  bytes = bytes + #part
end
if #names == 2 * most then
  found[1] = '1'
end
found[2], found[3] = string.format('%.0f', from), string.format('%.0f', skip)
return found
