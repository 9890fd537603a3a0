"""The links of a syphon to destinations: a bounded number, closed when idle. No I/O, no clock."""

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

IDLE_S = 60.0


def _places() -> int:
    with suppress(ImportError):  # Windows has no such limit
        import resource

        return min(200, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4)
    return 200


PLACES = _places()
"""How many destinations have a link at once, and how many sends are under way: a quarter of the file descriptors."""


class Connections:
    """The links by entity, the least recently used first."""

    def __init__(self, make: Callable[[str], Any], lock: AbstractContextManager[object] | None = None) -> None:
        self._make, self._lock = make, lock or nullcontext()
        self._links: dict[str, Any] = {}
        self._sends = Counter[str]()
        self._used_at: dict[str, float] = {}
        self._leaving: list[Any] = []

    def has_place(self, path: str, places: int) -> bool:
        """Whether a send to the entity may begin while fewer than this number are under way.

        Only one opens a link; and a link to another entity can be closed for it only while that one is idle.
        """
        with self._lock:
            if self._sends.total() >= places:
                return False
            if path in self._links:
                return not self._sends[path] or self._links[path].sender is not None
            return len(self._links) < PLACES or any(not self._sends[other] for other in self._links)

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
