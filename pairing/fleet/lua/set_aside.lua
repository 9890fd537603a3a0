-- KEYS key, where it is set aside, record of what was set aside
-- ARGV type that the key should have, ms after which what was set aside is deleted, whether a stream takes nothing more
-- Returns the type that was found; '' where nothing was wrong.
local found = redis.call('TYPE', KEYS[1]).ok
local is_right = found == 'none' or found == ARGV[1]
if ARGV[1] == 'counter' and found == 'string' then
  local text = redis.call('GET', KEYS[1])
  is_right = #text <= 15 and string.match(text, '^%-?%d+$') ~= nil
end
local is_exhausted = found == 'stream' and ARGV[3] == '1'
if is_right and not is_exhausted then return '' end
redis.call('RENAME', KEYS[1], KEYS[2])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
if is_exhausted then
  local latest = string.format('%.0f', now + 3600000)
  for _, entry in ipairs(redis.call('XRANGE', KEYS[2], '-', latest, 'COUNT', 10000)) do
    redis.call('XADD', KEYS[1], entry[1], unpack(entry[2]))
  end
end
if redis.call('TYPE', KEYS[3]).ok ~= 'hash' then redis.call('DEL', KEYS[3]) end
redis.call('HSET', KEYS[3], KEYS[1], cjson.encode({found = found, at = now}))
redis.call('PEXPIRE', KEYS[3], ARGV[2])
return found
