-- KEYS ping-due; ARGV path, interval in ms, grace in ms
local due = tonumber(redis.call('HGET', KEYS[1], ARGV[1])) or now
local claimed = now >= due + tonumber(ARGV[3])
local next_due = claimed and now + tonumber(ARGV[2]) or due
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', next_due))
return claimed and 1 or 0
