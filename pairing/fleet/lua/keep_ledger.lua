-- KEYS ledger, fence, token of the ledger's holder; ARGV queue, ledger as JSON, token
local fence = math.max(whole(redis.call('HGET', KEYS[2], ARGV[1])),
                       whole(redis.call('HGET', KEYS[3], ARGV[1])))
if tonumber(ARGV[3]) < fence then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('HSET', KEYS[3], ARGV[1], ARGV[3])
return 1
