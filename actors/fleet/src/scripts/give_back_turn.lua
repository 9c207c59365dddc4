-- Gives a turn back, if the owner still has it: others need not wait for its end.
--
-- KEYS: turn. ARGV: owner.
-- Returns {'given', 1 if it was the owner's, else 0}.
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then
  return {'given', 0}
end
return {'given', redis.call('DEL', KEYS[1])}
