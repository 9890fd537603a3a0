"""The destinations that the syphon may send to now: not failed over, held back or paused. No I/O, no clock."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pairing.drain.pacing import Pacing

LONGEST_PAUSE_S = 120.0
BUSY_PAUSE_S = 10.0


@dataclass(slots=True)
class _Destination:
    free_at: float = 0.0
    pause_s: float = 0.0
    reason: str = ""
    was_shut: bool = False


class Destinations:
    """The state of the entities that the syphon sends to; shared by its queues."""

    def __init__(
        self, is_failed_over: Callable[[str], bool], *, first_pause_s: float = 1.0, pacing: Pacing | None = None
    ) -> None:
        self.pacing = pacing or Pacing()
        self._is_failed_over = is_failed_over
        self._first_pause_s = first_pause_s
        self._kept_back: frozenset[str] = frozenset()
        self._known: dict[str, _Destination] = {}

    def is_blocked(self, path: str, now: float) -> bool:
        """Whether nothing may be sent there now: shut, or pausing after a failure.

        When a shut destination opens again, its pause ends as well.
        """
        known = self._of(path)
        if self.is_shut(path):
            known.was_shut = True
            return True
        if known.was_shut:
            known.was_shut, known.free_at, known.pause_s = False, now, 0.0
        return now < known.free_at

    def is_shut(self, path: str) -> bool:
        """Whether it is failed over, or kept back by an operator."""
        return self._is_failed_over(path) or path.lower() in self._kept_back

    def keep_back(self, paths: Iterable[str]) -> None:
        """Send nothing to exactly these entities until the next call, because operators paused them."""
        self._kept_back = frozenset(path.lower() for path in paths)

    def failed(self, path: str, now: float, reason: str, *, busy: bool = False) -> None:
        """A send failed because of the destination: the pause doubles, up to 2 min; busy: 10 s."""
        known = self._of(path)
        known.pause_s = min(max(2 * known.pause_s, self._first_pause_s), LONGEST_PAUSE_S)
        known.free_at = now + max(known.pause_s, BUSY_PAUSE_S if busy else 0.0)
        known.reason = reason

    def sent(self, path: str) -> None:
        """A send was accepted."""
        known = self._of(path)
        known.pause_s = known.free_at = 0.0
        known.reason = ""

    def reason(self, path: str) -> str:
        """Why the last send there failed; empty if it did not."""
        return self._of(path).reason

    def _of(self, path: str) -> _Destination:
        return self._known.setdefault(path.lower(), _Destination())
