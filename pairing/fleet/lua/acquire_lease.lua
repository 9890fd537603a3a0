-- KEYS lease, fence; ARGV name, owner, ttl in ms
-- A lease ends by itself: what never does, or lasts longer than any lease, is none.
local LONGEST = 24 * 3600000
local owner = redis.call('GET', KEYS[1])
local left = owner and redis.call('PTTL', KEYS[1])
if owner and (left < 0 or left > math.max(LONGEST, tonumber(ARGV[3]))) then owner = nil end
local fence = whole(redis.call('HGET', KEYS[2], ARGV[1]))
if owner and owner ~= ARGV[2] then return false end
if not owner then
  fence = math.max(now, fence + 1)
  redis.call('HSET', KEYS[2], ARGV[1], string.format('%.0f', fence))
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return string.format('%.0f', fence)
