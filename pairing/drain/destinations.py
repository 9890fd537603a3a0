"""The destinations that the syphon may send to now, not failed over, held back or paused; and the links to them: a
bounded number, closed when idle. No I/O, no clock.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from pairing.drain.backlog_queue import BATCH
from pairing.drain.shared.pacing import Pacing
from pairing.options import MOST_LINKS

LONGEST_PAUSE_S = 120.0
_LONGEST_OUTAGE_S = 30.0  # as long as a recovered destination may have to wait for the next attempt
BUSY_PAUSE_S = 10.0
IDLE_S = 60.0
PLACES = MOST_LINKS
"""How many destinations have a link at once, and how many sends are under way."""


class Connections:
    """The links by entity, the least recently used first."""

    def __init__(self, make: Callable[[str], Any], lock: AbstractContextManager[object] | None = None) -> None:
        self._make, self._lock = make, lock or nullcontext()
        self._links: dict[str, Any] = {}
        self._sends = Counter[str]()
        self._used_at: dict[str, float] = {}
        self._leaving: list[Any] = []

    def has_place(self, path: str, places: int) -> bool:
        """Whether a send to the entity may begin while fewer than this number are under way; only one opens a link."""
        with self._lock:
            if self._sends.total() >= places:
                return False
            return not self._sends[path] or self._links[path].sender is not None

    def take(self, path: str, places: int) -> bool:
        """Take a place for a send to the entity, if there is one."""
        with self._lock:
            if not self.has_place(path, places):
                return False
            if path not in self._links and len(self._links) >= PLACES:
                self._leave(next(other for other in self._links if not self._sends[other]))
            if path not in self._links:
                self._links[path] = self._make(path)
            self._sends[path] += 1
            return True

    def link(self, path: str) -> Any:
        """The link for a send that has a place."""
        return self._links[path]

    def give_back(self, path: str, now: float) -> None:
        """The send is over."""
        with self._lock:
            self._sends[path] -= 1
            self._links[path], self._used_at[path] = self._links.pop(path), now
            if not self._sends[path]:
                del self._sends[path]

    def idle(self, now: float) -> list[Any]:
        """The links to be closed: those that had to make room, and those unused for a minute."""
        with self._lock:
            for path in [path for path in self._links if not self._sends[path]]:
                if now - self._used_at[path] >= IDLE_S:
                    self._leave(path)
            leaving, self._leaving = self._leaving, []
            return leaving

    def all(self) -> list[Any]:
        """The links, to be closed because the syphon ends."""
        with self._lock:
            return [*self._links.values(), *self._leaving]

    def _leave(self, path: str) -> None:
        del self._used_at[path]
        self._leaving.append(self._links.pop(path))


@dataclass(slots=True)
class _Trouble:
    free_at: float = 0.0
    pause_s: float = 0.0
    is_final: bool = False
    was_shut: bool = False


class Destinations:
    """The state of the entities that the syphon sends to, and the links to them; shared by its queues."""

    def __init__(
        self,
        is_failed_over: Callable[[str], bool],
        connections: Connections,
        *,
        first_pause_s: float = 1.0,
        pacing: Pacing | None = None,
    ) -> None:
        self.pacing = pacing or Pacing()
        self.connections = connections
        self._is_failed_over = is_failed_over
        self._first_pause_s = first_pause_s
        self._kept_back: frozenset[str] = frozenset()
        self._troubles: dict[str, _Trouble] = {}

    def is_blocked(self, path: str, now: float) -> bool:
        """Whether nothing may be sent there now: shut, or pausing after a failure.

        When a shut destination opens again, its pause ends as well.
        """
        if self.is_shut(path):
            self._of(path).was_shut = True
            return True
        trouble = self._troubles.get(path.lower())
        if trouble is not None and trouble.was_shut:
            self.sent(path)
            return False
        return trouble is not None and now < trouble.free_at

    def is_shut(self, path: str) -> bool:
        """Whether it is failed over, or kept back by an operator."""
        return self._is_failed_over(path) or path.lower() in self._kept_back

    def is_on_trial(self, path: str) -> bool:
        """Whether the last send there failed: nobody waits for the next one."""
        trouble = self._troubles.get(path.lower())
        return trouble is not None and trouble.pause_s > 0

    def room(self, path: str, now: float, taken: int = 0) -> int:
        """How many messages may be tried there now: one if it did not answer last time.

        ``taken``: the number of places that others are about to take.
        """
        if self.is_blocked(path, now) or not self.connections.has_place(path, self._places(path) - taken):
            return 0
        return 1 if self.is_on_trial(path) and not self._of(path).is_final else BATCH

    def take(self, path: str) -> bool:
        """Take a place for a send there; False while all are taken, or half of them if the last send failed."""
        return self.connections.take(path, self._places(path))

    def _places(self, path: str) -> int:
        return PLACES // 2 if self.is_on_trial(path) else PLACES

    def keep_back(self, paths: Iterable[str]) -> None:
        """Send nothing to exactly these entities until the next call, because operators paused them."""
        self._kept_back = frozenset(path.lower() for path in paths)

    def failed(self, path: str, now: float, *, is_final: bool = False, is_busy: bool = False) -> None:
        """A send failed because of the destination: the pause doubles, up to 30 s, or 2 min if the answer was final."""
        trouble = self._of(path)
        trouble.is_final = is_final
        longest_s = LONGEST_PAUSE_S if is_final else _LONGEST_OUTAGE_S
        trouble.pause_s = min(max(2 * trouble.pause_s, self._first_pause_s), longest_s)
        trouble.free_at = now + max(trouble.pause_s, BUSY_PAUSE_S if is_busy else 0.0)

    def sent(self, path: str) -> None:
        """A send was accepted."""
        self._troubles.pop(path.lower(), None)

    def _of(self, path: str) -> _Trouble:
        return self._troubles.setdefault(path.lower(), _Trouble())
