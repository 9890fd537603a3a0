-- Generations, gates and barriers: what the scripts of session order share. Needs `now`, `whole`, `decoded` and, as
-- KEYS[1], the gates. What cannot be read stays up, and is written anew: order matters more than a question to Redis.
local function next_generation(key)
  local last = math.max(now, whole(redis.call('GET', key)) + 1)
  redis.call('SET', key, string.format('%.0f', last))
  return string.format('%.0f', last)
end
local function gate_of(entity)
  local text = redis.call('HGET', KEYS[1], entity)
  local gate = text and decoded(text, 'sessions', 'number')
  if gate and whole(gate.since) > 0 and whole(gate.wanted) > 0 then return gate end
  return text and {since = now, wanted = now, sessions = 1}
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
