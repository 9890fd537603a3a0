-- KEYS pings; ARGV path, record as JSON
local before = decoded(redis.call('HGET', KEYS[1], ARGV[1]))
local record = cjson.decode(ARGV[2])
record.count = (before and before.count or 0) + 1
redis.call('HSET', KEYS[1], ARGV[1], cjson.encode(record))
