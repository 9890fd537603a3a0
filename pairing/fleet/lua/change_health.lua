-- KEYS health, latest, ping-due, pings, changed, born
-- ARGV verb, path, change as JSON, base version, caller's time, recovers
local verb, path, base, recovers = ARGV[1], ARGV[2], tonumber(ARGV[4]), ARGV[6] == '1'
local change = cjson.decode(ARGV[3])
local written = redis.call('HGET', KEYS[1], path)
local function set(value) return value ~= nil and value ~= cjson.null end
local current = decoded(written)
local is_over = current and current.state == 'failed_over'
local is_held = is_over and set(current.held_by) and not (set(current.expires) and current.expires <= ARGV[5])

local function allowed()
  if change.origin == 'forced' or not current then return true end
  local knew = base >= current.version or current.process == change.process
  local is_stale = not knew and current.state ~= 'failing' and current.since >= change.since
  if change.state == 'failing' then return not is_over end
  if change.state == 'healthy' then
    if not is_over then return current.state ~= 'healthy' end
    return recovers and not is_stale and (knew or not is_held)
  end
  if is_over then return knew or set(change.held_by) end
  return not is_stale
end

local keeps_version = false
if verb == 'publish' then
  if not allowed() then return {0, written} end
  if is_over and change.state == 'failed_over' and current.origin == 'forced' then change.origin = 'forced' end
elseif verb == 'hold' then
  local is_so = is_held and current.held_by == change.held_by and current.expires == change.expires
  if not is_over or is_so then return {0, written} end
  current.held_by, current.expires = change.held_by, change.expires
elseif verb == 'release' then
  if not is_over then return {0, written} end
  current.held_by, current.expires = cjson.null, cjson.null
elseif verb == 'mark_healthy' then
  if not is_over then return {0, written} end
elseif verb == 'restore' then
  local knew = current and whole(current.knew) or 0
  local ends_it = current and current.state == 'failing' and change.state == 'failed_over' and knew < change.version
  if current and current.version >= change.version and not ends_it then return {0, written} end
  keeps_version = not ends_it
end
if verb == 'hold' or verb == 'release' then
  current.process = change.process
  change = current
end
if verb ~= 'restore' then
  local stood = current and (current.state == 'failing' and set(current.knew) and whole(current.knew) or current.version) or 0
  change.knew = math.max(base, stood, whole(change.knew))
end
if not keeps_version then change.version = math.max(now, (current and current.version or 0) + 1, base + 1) end
local text = cjson.encode(change)
redis.call('HSET', KEYS[1], path, text)
local latest = string.format('%.0f', math.max(change.version, whole(redis.call('GET', KEYS[2])) + 1))
redis.call('SET', KEYS[2], latest)
redis.call('ZADD', KEYS[5], latest, path)
redis.call('SET', KEYS[6], string.format('%.0f', now), 'NX')
if change.state == 'healthy' or verb == 'release' or not is_over then redis.call('HDEL', KEYS[3], path) end
if change.state == 'failed_over' and not is_over and verb ~= 'restore' then redis.call('HDEL', KEYS[4], path) end
redis.call('PUBLISH', KEYS[1], text)
return {1, text}
