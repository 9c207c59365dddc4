-- Takes the lease, if nobody holds it, and begins an epoch.
--
-- KEYS: lease, fence, entries. ARGV: owner, ms of the lease, highest epoch that the owner has seen, ms of the longest
-- lease that is taken for one, highest epoch that there may be, epochs by which the store may be ahead.
-- Returns {'acquired', epoch}, {'held', ms that are left}, or {'exhausted', highest epoch} if no epoch is left.
--
-- Others may have put anything into these keys: pcall; a lease that never expires is none; and an epoch that is far
-- ahead counts for nothing, or else none would be left.
local owner, length, seen = ARGV[1], ARGV[2], tonumber(ARGV[3])
local lease_max, epoch_max, leap_max = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])

local lease = redis.pcall('GET', KEYS[1])
local left = redis.call('PTTL', KEYS[1])
if type(lease) == 'string' and left > 0 and left <= lease_max then
  -- The owner's own lease: the answer was lost. It begins another epoch.
  if string.match(lease, '^%d+:(.*)$') ~= owner then
    return {'held', left}
  end
end

local fence = redis.pcall('HGET', KEYS[2], 'epoch')
local before = type(fence) == 'string' and string.match(fence, '^%d+$') and tonumber(fence) or 0
if before > seen + leap_max then
  before = 0
end
local epoch = math.max(before, seen) + 1
if epoch > epoch_max then
  return {'exhausted', epoch_max}
end
-- Lua would write a large number with an exponent.
local text = string.format('%.0f', epoch)

redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3])
redis.call('SET', KEYS[1], text .. ':' .. owner, 'PX', length)
redis.call('HSET', KEYS[2], 'epoch', text, 'sequence', '-1')
return {'acquired', epoch}
