-- KEYS processes; ARGV process, presence as JSON
redis.call('HSET', KEYS[1], ARGV[1], string.format('{"at": %.0f, "report": %s}', now, ARGV[2]))
