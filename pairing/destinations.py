"""Which entities the syphon may send to now, and how fast: pauses that grow, and a rate. No I/O, no clock."""

from collections.abc import Callable
from dataclasses import dataclass

LONGEST_PAUSE_S = 120.0
BUSY_PAUSE_S = 10.0
_BURST_S = 1.0


@dataclass(slots=True)
class _Destination:
    free_at: float = 0.0
    pause_s: float = 0.0
    reason: str = ""
    was_failed_over: bool = False
    tokens: float = 0.0
    filled_at: float | None = None


class Destinations:
    """What the syphon knows of the entities it brings messages home to; shared by its queues."""

    def __init__(
        self, is_failed_over: Callable[[str], bool], *, first_pause_s: float = 1.0, max_rate: float | None = None
    ) -> None:
        self._is_failed_over = is_failed_over
        self._first_pause_s = first_pause_s
        self._max_rate = max_rate
        self._known: dict[str, _Destination] = {}

    def is_blocked(self, path: str, now: float) -> bool:
        """Whether nothing shall be sent there now: failed over, or pausing after a failure.

        A recovery ends the pause, whatever was left of it.
        """
        known = self._of(path)
        if self._is_failed_over(path):
            known.was_failed_over = True
            return True
        if known.was_failed_over:
            known.was_failed_over, known.free_at, known.pause_s = False, now, 0.0
        return now < known.free_at

    def failed(self, path: str, now: float, reason: str, *, busy: bool = False) -> None:
        """A send failed for a reason that concerns the destination: the pause doubles, up to 2 min; busy: 10 s."""
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
        """Why the last send there failed; empty where it did not."""
        return self._of(path).reason

    def allowance(self, path: str, wanted: int, now: float) -> tuple[int, float]:
        """How many messages may be sent there now, of so many; and where none, in how many seconds one may."""
        if self._max_rate is None:
            return wanted, 0.0
        known = self._of(path)
        most = max(1.0, self._max_rate * _BURST_S)
        elapsed = now - known.filled_at if known.filled_at is not None else _BURST_S
        known.tokens, known.filled_at = min(most, known.tokens + elapsed * self._max_rate), now
        allowed = min(wanted, int(known.tokens))
        known.tokens -= allowed
        return allowed, 0.0 if allowed else (1.0 - known.tokens) / self._max_rate

    def _of(self, path: str) -> _Destination:
        return self._known.setdefault(path.lower(), _Destination())
