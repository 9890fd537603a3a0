-- KEYS a queue of tasks, whose oldest task is the last one
-- ARGV the time in ISO 8601 with UTC offset, as tasks have it; the largest number to drop
-- Returns how many of the oldest tasks had expired and were dropped.
for dropped = 0, tonumber(ARGV[2]) - 1 do
  local oldest = redis.call('LINDEX', KEYS[1], -1)
  if not oldest then return dropped end
  local is_read, task = pcall(cjson.decode, oldest)
  local headers = is_read and type(task) == 'table' and task.headers
  local expires = type(headers) == 'table' and headers.expires
  if type(expires) ~= 'string' or #expires ~= #ARGV[1] or expires >= ARGV[1] then return dropped end
  redis.call('RPOP', KEYS[1])
end
return tonumber(ARGV[2])
