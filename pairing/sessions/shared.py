"""The sessions with messages in the backlog, shared by the processes of a fleet through Redis. Thin and blocking.

A *gate* marks an entity whose sessions may have to go to the backlog: while it is up, every send of a session checks it
first. A *barrier* belongs to one session: it names the backlog queue for all of its messages, counts each send before
it is made (``generation``), and lists sends without a reported result (``intents``, which expire). A barrier is lifted
only by a process that can prove that the queue holds no message of the session, and only if there was no send in the
meantime (docs/design/session-order.md). Every step is one script, with the time of Redis.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pairing.fleet.access import script
from pairing.sessions.rulings import Ruling, entity_of

if TYPE_CHECKING:
    from pairing.fleet.shared_state import SharedState

FRESH_S = 2.0
"""How long a process may trust its copy of the gates."""
RAISING_S = FRESH_S + 0.5
"""How long a gate must be up before a session is redirected, so that every process knows it or checks."""
_Arguments = list[bytes | bytearray | memoryview | str | int | float]
_LOWERED_AFTER_S = 10.0
_INTENT_MARGIN_S = 30.0
_ASK_AGAIN_S = 0.1

_ROOM = "pairing.sessions"
_CLOCK = script("pairing.fleet", "clock")
_BASE = _CLOCK + script("pairing.fleet", "whole", "record")
_GATES = _BASE + script(_ROOM, "gates")
_SYNC = _GATES + script(_ROOM, "sync_gates")
_ENTER = _GATES + script(_ROOM, "enter")
_LEAVE = _GATES + script(_ROOM, "leave")
_MOVE = script("pairing.fleet", "record") + script(_ROOM, "move")
_BAR = _GATES + script(_ROOM, "bar")
_BARRED = _GATES + script(_ROOM, "barred")
_LIFT = _GATES + script(_ROOM, "lift")
_HOLD = _BASE + script(_ROOM, "hold")


@dataclass(frozen=True, slots=True)
class Gates:
    """The copy that a process keeps."""

    epoch: str
    """A new one means that Redis has lost its data and needs the gates again."""
    up: frozenset[str]
    """The entities, in lower case, whose sessions check the gate before each send."""


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
        """The present gates, after raising those of the ``wanted`` entities."""
        lowered_after = _ms(_LOWERED_AFTER_S)
        found = self._sync(keys=[self._gates, self._epoch], args=[epoch, lowered_after, *map(str.lower, wanted)])
        return Gates(found[0], frozenset(found[1:]))

    def enter(self, key: str, candidate: str | None, token: str, *, within_s: float) -> Ruling:
        """The queue for a message that is about to be sent; a send behind a barrier is counted before it is made.

        ``candidate`` is the queue of a barrier to be raised if there is none; None raises none. The send ends within
        ``within_s``, and is considered ended some time later even without a report. While the syphon holds sends of the
        session back, a send retries if its timeout allows it.
        """
        ttl = _ms(within_s + _INTENT_MARGIN_S)
        arguments: _Arguments = [self._barriers, entity_of(key), key, candidate or "", token, ttl, _ms(RAISING_S)]
        arguments += [_ms(within_s), _ms(_ASK_AGAIN_S)]
        queue, wait_ms, is_new, others = self._enter(keys=[self._gates, self._places, self._latest], args=arguments)
        return Ruling(queue, int(wait_ms) / 1000, bool(is_new), others)

    def leave(self, ended: Iterable[tuple[str, str, bool]]) -> None:
        """These sends (session key, token, whether the queue accepted them) have ended with a known result."""
        arguments: _Arguments = []
        for key, token, stored in ended:
            arguments += [entity_of(key), key, token, int(stored)]
        if arguments:
            self._leave(keys=[self._gates, self._places], args=[self._barriers, *arguments])

    def move(self, key: str, token: str, queue: str, *, is_gone: bool) -> bool:
        """Let the barrier name another queue, if this send is the only one behind it or the old queue ``is_gone``."""
        return bool(self._move(keys=[self._places], args=[self._barriers, key, token, queue, int(is_gone)]))

    def bar(self, queue: str, keys: Iterable[str]) -> None:
        """Raise barriers for sessions with messages in the queue; existing barriers remain."""
        arguments = [part for key in keys for part in (entity_of(key), key)]
        if arguments:
            self._bar(keys=[self._gates, self._places, self._latest], args=[self._barriers, queue, *arguments])

    def barred(self, queue: str) -> dict[str, int] | None:
        """The sessions whose barrier names this queue, with its generation; 0 while a send may be in progress.

        None if no process of the pair has kept the order since Redis started.
        """
        found = self._barred(keys=[self._barriers + queue, self._epoch, self._latest])
        if found is None:
            return None
        return {key: int(generation) for key, generation in zip(found[::2], found[1::2], strict=True)}

    def lift(self, queue: str, drained: Mapping[str, int]) -> int:
        """Lift the barriers of sessions without messages in the queue, unless there was a send; returns the number."""
        arguments: _Arguments = [part for key, at in drained.items() for part in (entity_of(key), key, at)]
        if not arguments:
            return 0
        return int(self._lift(keys=[self._gates, self._places, self._barriers + queue], args=arguments))

    def hold(self, queue: str, keys: Iterable[str], for_s: float) -> None:
        """Let the next sends of these sessions wait for this time, or until their barrier is lifted."""
        self._hold(keys=[self._barriers + queue], args=[int(for_s * 1000), *keys])


def _ms(seconds: float) -> int:
    return max(int(seconds * 1000), 1)
