-- Reports what a replica has seen. A store that has less has lost it: the epoch is over, and the next one exceeds it.
--
-- KEYS: fence. ARGV: epoch and sequence of the newest entry that was seen, 1 if two leaders wrote in that epoch, 1 if the
-- replica wants a snapshot, highest epoch that there may be.
-- Returns {'known', newest epoch, sequence of its newest entry or -1}; or {'raised', newest epoch, -1} if the store had
-- lost something.
local epoch, sequence = tonumber(ARGV[1]), tonumber(ARGV[2])
local fence = redis.call('HMGET', KEYS[1], 'epoch', 'sequence')
local newest = tonumber(fence[1] or '0') or 0
local last = tonumber(fence[2] or '-1') or -1

local raised = newest
if newest < epoch then
  raised = epoch
elseif newest == epoch and epoch > 0 and (last < sequence or ARGV[3] == '1') then
  raised = epoch + 1
end
if raised ~= newest and raised < tonumber(ARGV[5]) then
  redis.call('HSET', KEYS[1], 'epoch', string.format('%.0f', raised), 'sequence', '-1')
  return {'raised', raised, -1}
end
if ARGV[4] == '1' then
  redis.call('HSET', KEYS[1], 'wanted', '1')
end
return {'known', newest, last}
