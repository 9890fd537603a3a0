-- KEYS barriers of the queue; ARGV duration in ms, then the sessions' keys
for i = 2, #ARGV do
  local text = redis.call('HGET', KEYS[1], ARGV[i])
  if text then
    local barrier = decoded(text)
    barrier.held_until = now + tonumber(ARGV[1])
    redis.call('HSET', KEYS[1], ARGV[i], cjson.encode(barrier))
  end
end
