-- Makes the owner's lease last longer.
--
-- KEYS: lease, fence. ARGV: owner, ms of the lease, epoch.
-- Returns {'renewed', 1 if a replica wants a snapshot, else 0}, or {'lost', newest epoch}.
local held = redis.call('GET', KEYS[1])
local epoch = redis.call('HGET', KEYS[2], 'epoch')
if held ~= ARGV[3] .. ':' .. ARGV[1] or epoch ~= ARGV[3] then
  return {'lost', tonumber(epoch or '0') or 0}
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {'renewed', redis.call('HEXISTS', KEYS[2], 'wanted')}
