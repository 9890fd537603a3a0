-- KEYS counts of tasks
-- ARGV task, starts, failures, delays' sum in s, the longest, when that was, how long it is remembered
local known = redis.call('HGET', KEYS[1], ARGV[1])
local none = {starts = 0, failures = 0, delay_s = 0, longest_s = 0, longest_at = 0, at = 0}
local all = known and cjson.decode(known) or none
all.starts, all.failures = all.starts + ARGV[2], all.failures + ARGV[3]
all.delay_s = all.delay_s + ARGV[4]
if tonumber(ARGV[5]) >= all.longest_s or ARGV[6] - all.longest_at > tonumber(ARGV[7]) then
  all.longest_s, all.longest_at = tonumber(ARGV[5]), tonumber(ARGV[6])
end
all.at = math.max(all.at, tonumber(ARGV[6]))
redis.call('HSET', KEYS[1], ARGV[1], cjson.encode(all))
