-- Reads some records, whichever the store gives after a cursor.
--
-- KEYS: records. ARGV: cursor, records to read, longest record in bytes, longest manifest.
-- Returns {cursor, number of records with the manifest, manifest, name, bytes, ...}; the cursor is '0' after the last
-- ones. One byte is in place of what is too long for a record, or for a manifest.
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then
  return {'0', '0', ''}
end
local longest = tonumber(ARGV[3])
local manifest = redis.call('HGET', KEYS[1], 'manifest') or ''
local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
local found = {page[1], tostring(redis.call('HLEN', KEYS[1])), #manifest <= tonumber(ARGV[4]) and manifest or 'x'}
for at = 1, #page[2], 2 do
  local name, bytes = page[2][at], page[2][at + 1]
  if name ~= 'manifest' then
    found[#found + 1] = #name <= 256 and name or 'x'
    found[#found + 1] = #bytes <= longest and bytes or 'x'
  end
end
return found
