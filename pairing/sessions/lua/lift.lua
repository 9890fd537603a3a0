-- KEYS gates, places, barriers of the queue; ARGV triples of entity, session's key and generation
local lifted = 0
for i = 1, #ARGV, 3 do
  local text = redis.call('HGET', KEYS[3], ARGV[i + 1])
  local barrier = text and decoded(text)
  if barrier and barrier.generation == ARGV[i + 2] then
    lifted = lifted + 1
    redis.call('HDEL', KEYS[3], ARGV[i + 1])
    redis.call('HDEL', KEYS[2], ARGV[i + 1])
    local gate = gate_of(ARGV[i])
    if gate then
      gate.sessions = gate.sessions - 1
      gate.wanted = now
      keep_gate(ARGV[i], gate)
    end
  end
end
return lifted
