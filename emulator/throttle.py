"""Throttling as the service does it: credits that are spent by operations and renewed each second."""

from __future__ import annotations

from emulator.broker.errors import ServerBusy


class Throttle:
    """A namespace's credits: so many at the start of each second, one for each operation. `now` is unix seconds."""

    __slots__ = ("_left", "_second", "credits")

    def __init__(self, credits: int) -> None:
        self.credits = credits
        self._second = -1
        self._left = credits

    def spend(self, operations: int, now: float) -> None:
        """Take credits; what goes beyond them is borrowed once. Raises ServerBusy when none are left."""
        if int(now) != self._second:
            # A batch larger than what is left is let in, and paid for in the seconds after it.
            debt = min(self._left, 0) if self._second >= 0 else 0
            passed = max(int(now) - self._second, 1) if self._second >= 0 else 1
            self._second = int(now)
            self._left = min(self.credits, debt + self.credits * passed)
        if self._left <= 0:
            raise ServerBusy
        self._left -= operations
