-- KEYS gates, places, latest; ARGV prefix of barriers, queue, then pairs of entity and session's key
for i = 3, #ARGV, 2 do
  local gate = raise(ARGV[i])
  if redis.call('HSETNX', KEYS[2], ARGV[i + 1], ARGV[2]) == 1 then
    gate.sessions = gate.sessions + 1
    keep_gate(ARGV[i], gate)
    local barrier = {generation = next_generation(KEYS[3]), intents = {}, first = ''}
    redis.call('HSET', ARGV[1] .. ARGV[2], ARGV[i + 1], cjson.encode(barrier))
  end
end
