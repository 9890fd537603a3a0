-- KEYS rotations; ARGV process, paths as JSON
redis.call('HSET', KEYS[1], ARGV[1], string.format('{"at": %.0f, "paths": %s}', now, ARGV[2]))
