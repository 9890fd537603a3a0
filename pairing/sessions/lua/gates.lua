-- Generations and gates: what the scripts of session order share. Needs `now`, `whole`, `decoded` and, as KEYS[1], the
-- gates.
local function next_generation(key)
  local last = math.max(now, whole(redis.call('GET', key)) + 1)
  redis.call('SET', key, string.format('%.0f', last))
  return string.format('%.0f', last)
end
local function gate_of(entity)
  return decoded(redis.call('HGET', KEYS[1], entity))
end
local function keep_gate(entity, gate)
  redis.call('HSET', KEYS[1], entity, cjson.encode(gate))
end
local function raise(entity)
  local gate = gate_of(entity) or {since = now, sessions = 0}
  gate.wanted = now
  keep_gate(entity, gate)
  return gate
end
