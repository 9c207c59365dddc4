-- count
-- Sums up the units that the processes of a fleet have counted on one day.
--
-- KEYS: sums. ARGV: ms for which they are kept, then for each of them: units that the caller knows of, units to add, which
-- may be negative.
-- Returns the new sums.
--
-- A sum is as much as the caller knows of at least: a store that has lost it gets it back. Others may have put anything
-- into the keys: what is no number counts for nothing.
local sum_max = 2 ^ 53 - 1
local sums = {}
for i, key in ipairs(KEYS) do
  local known, added = tonumber(ARGV[i * 2]), tonumber(ARGV[i * 2 + 1])
  local sum = redis.pcall('GET', key)
  if type(sum) ~= 'string' or #sum > 16 or not string.match(sum, '^%d+$') then
    sum = '0'
  end
  sum = math.max(0, math.min(sum_max, math.max(tonumber(sum), known) + added))
  redis.call('SET', key, string.format('%.0f', sum), 'PX', ARGV[1])
  sums[#sums + 1] = sum
end
return sums
