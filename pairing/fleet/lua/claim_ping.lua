-- KEYS ping-due; ARGV path, interval in ms, grace in ms
local LONGEST = 24 * 3600000 -- another process may have a longer interval, but none so long
local due = tonumber(redis.call('HGET', KEYS[1], ARGV[1])) or now
if not (due <= now + tonumber(ARGV[2]) + LONGEST) then due = now end
local claimed = now >= due + tonumber(ARGV[3])
local next_due = claimed and now + tonumber(ARGV[2]) or due
redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f', next_due))
return claimed and 1 or 0
