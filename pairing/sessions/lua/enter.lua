-- KEYS gates, places, latest
-- ARGV prefix of barriers, entity, key, candidate or '', token, ttl and raising in ms, the send's timeout and the
-- pause between two questions in ms
local entity, key, candidate, token = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local queue = redis.call('HGET', KEYS[2], key)
local barrier
if queue then
  barrier = decoded(redis.call('HGET', ARGV[1] .. queue, key))
  local held = (barrier.held_until or 0) - now
  if held > 0 and tonumber(ARGV[8]) > 2 * held and not barrier.intents[token] then
    return {'', math.min(held, tonumber(ARGV[9])), 0, ''}
  end
else
  if candidate == '' then return {'', 0, 0, ''} end
  local gate = raise(entity)
  local left = gate.since + tonumber(ARGV[7]) - now
  if left > 0 then return {'', left, 0, ''} end
  gate.sessions = gate.sessions + 1
  keep_gate(entity, gate)
  queue, barrier = candidate, {intents = {}}
  redis.call('HSET', KEYS[2], key, queue)
end
local others = ''
for other, ends in pairs(barrier.intents) do
  if ends <= now then barrier.intents[other] = nil elseif other ~= token then others = other end
end
barrier.generation = next_generation(KEYS[3])
local is_new = barrier.first == nil or barrier.first == token
if is_new then barrier.first = token else barrier.first = '' end
barrier.intents[token] = now + tonumber(ARGV[6])
redis.call('HSET', ARGV[1] .. queue, key, cjson.encode(barrier))
return {queue, 0, is_new and 1 or 0, others}
