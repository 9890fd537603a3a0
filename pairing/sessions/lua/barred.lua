-- KEYS barriers of the queue, epoch, latest; what can be lifted now has no intents
if redis.call('EXISTS', KEYS[2], KEYS[3]) == 0 then return false end
local found, all = {}, redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local barrier, busy = decoded(all[i + 1]), 0
  for _, ends in pairs(barrier.intents) do if ends > now then busy = 1 end end
  found[#found + 1] = all[i]
  found[#found + 1] = busy == 1 and '0' or barrier.generation
end
return found
