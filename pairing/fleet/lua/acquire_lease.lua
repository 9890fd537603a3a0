-- KEYS lease, fence; ARGV name, owner, ttl in ms
local owner = redis.call('GET', KEYS[1])
local fence = whole(redis.call('HGET', KEYS[2], ARGV[1]))
if owner and owner ~= ARGV[2] then return false end
if not owner then
  fence = math.max(now, fence + 1)
  redis.call('HSET', KEYS[2], ARGV[1], string.format('%.0f', fence))
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return string.format('%.0f', fence)
