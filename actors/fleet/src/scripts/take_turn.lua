-- Takes the turn to ask nodes for some state, if no other process has it.
--
-- KEYS: turn. ARGV: owner, milliseconds for which it is valid, bytes of the longest value that is read.
-- Returns false if it was taken, or what is there: another owner, or that a process has asked its nodes in vain.
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return false
end
local there = redis.pcall('GETRANGE', KEYS[1], 0, ARGV[3] - 1)
return type(there) == 'string' and there or ''
