"""Which sessions have messages in the backlog, as the processes of a fleet share it through Redis. Thin and blocking.

A *gate* stands before an entity whose sessions may have to go to the backlog: while it is up, every send of a session
asks here first. A *barrier* stands before one session: it names the backlog queue that all its messages go to, counts
each send before it is made (``generation``), and knows the sends whose end nobody has told yet (``intents``, which end
by themselves). It is lifted only by who can prove that the queue holds no message of the session, and only if nobody
sent in the meantime (docs/design/session-order.md). Every step is one script; times are Redis's own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pairing.fleet.shared_state import SharedState

FRESH_S = 2.0
"""How long a process may trust its copy of the gates."""
RAISING_S = FRESH_S + 0.5
"""How long a gate must have been up before a session is redirected: then every process knows of it, or asks."""
_Arguments = list[bytes | bytearray | memoryview | str | int | float]
_LOWERED_AFTER_S = 10.0
_INTENT_MARGIN_S = 30.0

_CLOCK = """
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local function next_generation(key)
  local last = math.max(now, tonumber(redis.call('GET', key) or 0) + 1)
  redis.call('SET', key, string.format('%.0f', last))
  return string.format('%.0f', last)
end
local function gate_of(entity)
  local text = redis.call('HGET', KEYS[1], entity)
  return text and cjson.decode(text)
end
local function keep_gate(entity, gate)
  redis.call('HSET', KEYS[1], entity, cjson.encode(gate))
end
local function raise(entity)
  local gate = gate_of(entity) or {since = now, sessions = 0}
  gate.wanted = now
  keep_gate(entity, gate)
  return gate
end
"""

# KEYS gates, epoch; ARGV an epoch for a Redis that has none, lowered after in ms, entities whose gate shall be up
_SYNC = (
    _CLOCK
    + """
redis.call('SET', KEYS[2], ARGV[1], 'NX')
for i = 3, #ARGV do raise(ARGV[i]) end
local up = {redis.call('GET', KEYS[2])}
local gates = redis.call('HGETALL', KEYS[1])
for i = 1, #gates, 2 do
  local gate = cjson.decode(gates[i + 1])
  if gate.sessions <= 0 and now - gate.wanted > tonumber(ARGV[2]) then
    redis.call('HDEL', KEYS[1], gates[i])
  else
    up[#up + 1] = gates[i]
  end
end
return up
"""
)

# KEYS gates, places, latest; ARGV prefix of barriers, entity, key, candidate or '', token, ttl and raising in ms
_ENTER = (
    _CLOCK
    + """
local entity, key, candidate, token = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local queue = redis.call('HGET', KEYS[2], key)
local barrier
if queue then
  barrier = cjson.decode(redis.call('HGET', ARGV[1] .. queue, key))
else
  if candidate == '' then return {'', 0, 0, ''} end
  local gate = raise(entity)
  local left = gate.since + tonumber(ARGV[7]) - now
  if left > 0 then return {'', left, 0, ''} end
  gate.sessions = gate.sessions + 1
  keep_gate(entity, gate)
  queue, barrier = candidate, {intents = {}}
  redis.call('HSET', KEYS[2], key, queue)
end
local others = ''
for other, ends in pairs(barrier.intents) do
  if ends <= now then barrier.intents[other] = nil elseif other ~= token then others = other end
end
barrier.generation = next_generation(KEYS[3])
local is_new = barrier.first == nil or barrier.first == token
if is_new then barrier.first = token else barrier.first = '' end
barrier.intents[token] = now + tonumber(ARGV[6])
redis.call('HSET', ARGV[1] .. queue, key, cjson.encode(barrier))
return {queue, 0, is_new and 1 or 0, others}
"""
)

# KEYS gates, places; ARGV prefix of barriers, then entity, session's key, token, and whether the queue may hold it
_LEAVE = (
    _CLOCK
    + """
for i = 2, #ARGV, 4 do
  local entity, key, token = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local queue = redis.call('HGET', KEYS[2], key)
  local text = queue and redis.call('HGET', ARGV[1] .. queue, key)
  if text then
    local barrier = cjson.decode(text)
    barrier.intents[token] = nil
    if ARGV[i + 3] == '0' and barrier.first == token and next(barrier.intents) == nil then
      redis.call('HDEL', ARGV[1] .. queue, key)
      redis.call('HDEL', KEYS[2], key)
      local gate = raise(entity)
      gate.sessions = gate.sessions - 1
      keep_gate(entity, gate)
    else
      redis.call('HSET', ARGV[1] .. queue, key, cjson.encode(barrier))
    end
  end
end
"""
)

# KEYS places; ARGV prefix of barriers, session's key, token, the new queue, whether the old one is gone
_MOVE = """
local key, token = ARGV[2], ARGV[3]
local queue = redis.call('HGET', KEYS[1], key)
if not queue then return 0 end
local text = redis.call('HGET', ARGV[1] .. queue, key)
local barrier = cjson.decode(text)
if ARGV[5] ~= '1' then
  if barrier.first ~= token then return 0 end
  for other in pairs(barrier.intents) do if other ~= token then return 0 end end
end
redis.call('HDEL', ARGV[1] .. queue, key)
redis.call('HSET', KEYS[1], key, ARGV[4])
redis.call('HSET', ARGV[1] .. ARGV[4], key, text)
return 1
"""

# KEYS gates, places, latest; ARGV prefix of barriers, queue, then pairs of entity and session's key
_BAR = (
    _CLOCK
    + """
for i = 3, #ARGV, 2 do
  local gate = raise(ARGV[i])
  if redis.call('HSETNX', KEYS[2], ARGV[i + 1], ARGV[2]) == 1 then
    gate.sessions = gate.sessions + 1
    keep_gate(ARGV[i], gate)
    local barrier = {generation = next_generation(KEYS[3]), intents = {}, first = ''}
    redis.call('HSET', ARGV[1] .. ARGV[2], ARGV[i + 1], cjson.encode(barrier))
  end
end
"""
)

# KEYS barriers of the queue, epoch, latest; what can be lifted now has no intents
_BARRED = """
if redis.call('EXISTS', KEYS[2], KEYS[3]) == 0 then return false end
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local found, all = {}, redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  local barrier, busy = cjson.decode(all[i + 1]), 0
  for _, ends in pairs(barrier.intents) do if ends > now then busy = 1 end end
  found[#found + 1] = all[i]
  found[#found + 1] = busy == 1 and '0' or barrier.generation
end
return found
"""

# KEYS gates, places, barriers of the queue; ARGV triples of entity, session's key and generation
_LIFT = (
    _CLOCK
    + """
local lifted = 0
for i = 1, #ARGV, 3 do
  local text = redis.call('HGET', KEYS[3], ARGV[i + 1])
  local barrier = text and cjson.decode(text)
  if barrier and barrier.generation == ARGV[i + 2] then
    lifted = lifted + 1
    redis.call('HDEL', KEYS[3], ARGV[i + 1])
    redis.call('HDEL', KEYS[2], ARGV[i + 1])
    local gate = gate_of(ARGV[i])
    if gate then
      gate.sessions = gate.sessions - 1
      gate.wanted = now
      keep_gate(ARGV[i], gate)
    end
  end
end
return lifted
"""
)


@dataclass(frozen=True, slots=True)
class Gates:
    """What a process keeps a copy of."""

    epoch: str
    """Another one than before: Redis has forgotten, and must be told."""
    up: frozenset[str]
    """The entities, in lower case, whose sessions ask before each send."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """Where a message of a session must go."""

    queue: str
    """The backlog queue that the session's messages go to; empty: there is no barrier."""
    wait_s: float = 0.0
    """The gate is not up long enough for every process to know: ask again after so long."""
    is_new: bool = False
    """Whether nothing but this send is behind the barrier, so that it may still take another queue."""
    others: str = ""
    """Another send of the session that may be under way, by its token; empty where there is none."""


def session_key(entity: str, session: str) -> str:
    """What a session is called in Redis; an entity's name has no blank."""
    return f"{entity.lower()} {session}"


def entity_of(key: str) -> str:
    """The entity, in lower case, of a session's key."""
    return key.partition(" ")[0]


class SharedSessions:
    """One pair's barriers. Every call blocks and may raise ``redis.RedisError``."""

    def __init__(self, shared: "SharedState") -> None:
        client, prefix = shared.redis, f"pairing:{{{shared.pair}}}:"
        self._gates, self._epoch = prefix + "session-gates", prefix + "session-epoch"
        self._latest = prefix + "session-latest"
        self._places, self._barriers = prefix + "session-queues", prefix + "sessions:"
        self._sync = client.register_script(_SYNC)
        self._enter = client.register_script(_ENTER)
        self._leave = client.register_script(_LEAVE)
        self._move = client.register_script(_MOVE)
        self._bar = client.register_script(_BAR)
        self._barred = client.register_script(_BARRED)
        self._lift = client.register_script(_LIFT)

    def sync(self, epoch: str, wanted: Iterable[str]) -> Gates:
        """The gates as they are now, those of the ``wanted`` entities raised."""
        lowered_after = _ms(_LOWERED_AFTER_S)
        found = self._sync(keys=[self._gates, self._epoch], args=[epoch, lowered_after, *map(str.lower, wanted)])
        return Gates(_text(found[0]), frozenset(map(_text, found[1:])))

    def enter(self, key: str, candidate: str | None, token: str, *, within_s: float) -> Ruling:
        """Where a message goes that is about to be sent; one behind a barrier is counted before it is sent.

        ``candidate`` is the queue of a barrier that must be raised where there is none; None raises none. The send
        ends within ``within_s``, and is taken for over some time after that even if nobody says so.
        """
        ttl = _ms(within_s + _INTENT_MARGIN_S)
        arguments: _Arguments = [self._barriers, entity_of(key), key, candidate or "", token, ttl, _ms(RAISING_S)]
        queue, wait_ms, is_new, others = self._enter(keys=[self._gates, self._places, self._latest], args=arguments)
        return Ruling(_text(queue), int(wait_ms) / 1000, bool(is_new), _text(others))

    def leave(self, ended: Iterable[tuple[str, str, bool]]) -> None:
        """These sends (session's key, token, whether the queue took them) have ended, and it is known how."""
        arguments: _Arguments = [part for key, token, stored in ended for part in _ended(key, token, stored)]
        if arguments:
            self._leave(keys=[self._gates, self._places], args=[self._barriers, *arguments])

    def move(self, key: str, token: str, queue: str, *, is_gone: bool) -> bool:
        """Let the barrier name another queue, where only this send is behind it or the old queue ``is_gone``."""
        return bool(self._move(keys=[self._places], args=[self._barriers, key, token, queue, int(is_gone)]))

    def bar(self, queue: str, keys: Iterable[str]) -> None:
        """Raise barriers for sessions that are known to have messages in the queue; others stay as they are."""
        arguments = [part for key in keys for part in (entity_of(key), key)]
        if arguments:
            self._bar(keys=[self._gates, self._places, self._latest], args=[self._barriers, queue, *arguments])

    def barred(self, queue: str) -> dict[str, int] | None:
        """The sessions whose barrier names this queue, with its generation; 0 while a send may be under way.

        None where no process of the pair has kept the order since Redis began.
        """
        found = self._barred(keys=[self._barriers + queue, self._epoch, self._latest])
        if found is None:
            return None
        return {_text(key): int(generation) for key, generation in zip(found[::2], found[1::2], strict=True)}

    def lift(self, queue: str, drained: Mapping[str, int]) -> int:
        """Lift the barriers of sessions of which the queue holds nothing, unless somebody sent since; how many."""
        arguments: _Arguments = [part for key, at in drained.items() for part in (entity_of(key), key, at)]
        if not arguments:
            return 0
        return int(self._lift(keys=[self._gates, self._places, self._barriers + queue], args=arguments))


def _ended(key: str, token: str, stored: bool) -> tuple[str, str, str, int]:
    return entity_of(key), key, token, int(stored)


def _ms(seconds: float) -> int:
    return max(int(seconds * 1000), 1)


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
