"""Which sessions have messages in the backlog, as the processes of a fleet share it through Redis. Thin and blocking.

A *gate* stands before an entity whose sessions may have to go to the backlog: while it is up, every send of a session
asks here first. A *barrier* stands before one session: it names the backlog queue that all its messages go to, counts
each send before it is made (``generation``), and knows the sends whose end nobody has reported yet (``intents``, which
end by themselves). It is lifted only by who can prove that the queue holds no message of the session, and only if
nobody sent in the meantime (docs/design/session-order.md). Every step is one script; times are Redis's own.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pairing.fleet.scripts import script
from pairing.sessions.rulings import Ruling, entity_of

if TYPE_CHECKING:
    from pairing.fleet.shared_state import SharedState

FRESH_S = 2.0
"""How long a process may trust its copy of the gates."""
RAISING_S = FRESH_S + 0.5
"""How long a gate must have been up before a session is redirected: then every process knows of it, or asks."""
_Arguments = list[bytes | bytearray | memoryview | str | int | float]
_LOWERED_AFTER_S = 10.0
_INTENT_MARGIN_S = 30.0
_ASK_AGAIN_S = 0.1

_ROOM = "pairing.sessions"
_CLOCK = script("pairing.fleet", "clock")
_BASE = _CLOCK + script("pairing.fleet", "whole", "record")
_GATES = _BASE + script(_ROOM, "barriers", "gates")
_SYNC = _GATES + script(_ROOM, "sync_gates")
_ENTER = _GATES + script(_ROOM, "enter")
_LEAVE = _GATES + script(_ROOM, "leave")
_MOVE = script("pairing.fleet", "whole", "record") + script(_ROOM, "barriers", "move")
_BAR = _GATES + script(_ROOM, "bar")
_BARRED = _GATES + script(_ROOM, "barred")
_LIFT = _GATES + script(_ROOM, "lift")
_HOLD = _BASE + script(_ROOM, "barriers", "hold")


@dataclass(frozen=True, slots=True)
class Gates:
    """What a process keeps a copy of."""

    epoch: str
    """Another one than before: Redis has forgotten, and needs the gates again."""
    up: frozenset[str]
    """The entities, in lower case, whose sessions ask before each send."""


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
        self._hold = client.register_script(_HOLD)

    def sync(self, epoch: str, wanted: Iterable[str]) -> Gates:
        """The gates as they are now, those of the ``wanted`` entities raised."""
        lowered_after = _ms(_LOWERED_AFTER_S)
        found = self._sync(keys=[self._gates, self._epoch], args=[epoch, lowered_after, *map(str.lower, wanted)])
        return Gates(_text(found[0]), frozenset(map(_text, found[1:])))

    def enter(self, key: str, candidate: str | None, token: str, *, within_s: float) -> Ruling:
        """Where a message goes that is about to be sent; one behind a barrier is counted before it is sent.

        ``candidate`` is the queue of a barrier that must be raised where there is none; None raises none. The send
        ends within ``within_s``, and is taken for over some time after that even if nobody says so. While the syphon
        holds the session's sends back, one whose timeout allows it retries.
        """
        ttl = _ms(within_s + _INTENT_MARGIN_S)
        arguments: _Arguments = [self._barriers, entity_of(key), key, candidate or "", token, ttl, _ms(RAISING_S)]
        arguments += [_ms(within_s), _ms(_ASK_AGAIN_S)]
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

    def hold(self, queue: str, keys: Iterable[str], for_s: float) -> None:
        """Let the next sends of these sessions wait so long, or until their barrier is lifted."""
        self._hold(keys=[self._barriers + queue], args=[int(for_s * 1000), *keys])


def _ended(key: str, token: str, stored: bool) -> tuple[str, str, str, int]:
    return entity_of(key), key, token, int(stored)


def _ms(seconds: float) -> int:
    return max(int(seconds * 1000), 1)


def _text(value: bytes | str) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
