"""Where the syphon may send to now: not to what is failed over, nor in pauses that grow. No I/O, no clock."""

from collections.abc import Callable
from dataclasses import dataclass

from pairing.pacing import Pacing

LONGEST_PAUSE_S = 120.0
BUSY_PAUSE_S = 10.0


@dataclass(slots=True)
class _Destination:
    free_at: float = 0.0
    pause_s: float = 0.0
    reason: str = ""
    was_failed_over: bool = False


class Destinations:
    """What the syphon knows of the entities it brings messages home to; shared by its queues."""

    def __init__(
        self, is_failed_over: Callable[[str], bool], *, first_pause_s: float = 1.0, pacing: Pacing | None = None
    ) -> None:
        self.pacing = pacing or Pacing()
        self._is_failed_over = is_failed_over
        self._first_pause_s = first_pause_s
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

    def _of(self, path: str) -> _Destination:
        return self._known.setdefault(path.lower(), _Destination())
