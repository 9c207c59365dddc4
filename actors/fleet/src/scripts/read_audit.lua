-- Reads entries of the audit, the newest first.
--
-- KEYS: entries of one kind. ARGV: number before which they are, most entries, longest entry in bytes.
-- Returns {id, bytes, id, bytes, ...}; one byte is in place of what is no entry.
local found = {}
for _, entry in ipairs(redis.call('XREVRANGE', KEYS[1], '(' .. ARGV[1] .. '-0', '-', 'COUNT', ARGV[2])) do
  local fields = entry[2]
  found[#found + 1] = entry[1]
  found[#found + 1] = #fields == 2 and #fields[2] <= tonumber(ARGV[3]) and fields[2] or 'x'
end
return found
