-- KEYS places
-- ARGV prefix of barriers, session's key, token, the new queue, whether the old one is gone
local key, token = ARGV[2], ARGV[3]
local queue = redis.call('HGET', KEYS[1], key)
if not queue then return 0 end
local text = redis.call('HGET', ARGV[1] .. queue, key)
local barrier = decoded(text)
if ARGV[5] ~= '1' then
  if barrier.first ~= token then return 0 end
  for other in pairs(barrier.intents) do if other ~= token then return 0 end end
end
redis.call('HDEL', ARGV[1] .. queue, key)
redis.call('HSET', KEYS[1], key, ARGV[4])
redis.call('HSET', ARGV[1] .. ARGV[4], key, text or cjson.encode(barrier))
return 1
