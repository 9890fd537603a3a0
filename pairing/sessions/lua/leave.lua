-- KEYS gates, places
-- ARGV prefix of barriers, then entity, session's key, token, and whether the queue may hold it
for i = 2, #ARGV, 4 do
  local entity, key, token = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local queue = redis.call('HGET', KEYS[2], key)
  local text = queue and redis.call('HGET', ARGV[1] .. queue, key)
  if text then
    local barrier = decoded(text)
    barrier.intents[token] = nil
    if ARGV[i + 3] == '0' and barrier.first == token and next(barrier.intents) == nil then
      redis.call('HDEL', ARGV[1] .. queue, key)
      redis.call('HDEL', KEYS[2], key)
      local gate = raise(entity)
      gate.sessions = gate.sessions - 1
      keep_gate(entity, gate)
    else
      redis.call('HSET', ARGV[1] .. queue, key, cjson.encode(barrier))
    end
  end
end
