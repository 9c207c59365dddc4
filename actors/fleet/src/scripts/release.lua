-- Gives the lease back, if the owner still holds it. The entries stay, and the next epoch may begin at once.
--
-- KEYS: lease. ARGV: owner, epoch.
-- Returns {'released', 1 if it was held, else 0}.
if redis.call('GET', KEYS[1]) ~= ARGV[2] .. ':' .. ARGV[1] then
  return {'released', 0}
end
return {'released', redis.call('DEL', KEYS[1])}
