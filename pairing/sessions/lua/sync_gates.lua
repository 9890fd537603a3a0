-- KEYS gates, epoch
-- ARGV an epoch for a Redis that has none, lowered after in ms, entities whose gate shall be up
redis.call('SET', KEYS[2], ARGV[1], 'NX')
for i = 3, #ARGV do raise(ARGV[i]) end
local up = {redis.call('GET', KEYS[2])}
local gates = redis.call('HGETALL', KEYS[1])
for i = 1, #gates, 2 do
  local gate = gate_of(gates[i])
  if gate.sessions <= 0 and now - gate.wanted > tonumber(ARGV[2]) then
    redis.call('HDEL', KEYS[1], gates[i])
  else
    up[#up + 1] = gates[i]
  end
end
return up
