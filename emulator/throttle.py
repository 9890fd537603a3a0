"""Throttling as the service does it: credits that are spent by operations and renewed each second.

A message sent, received or peeked costs one, sending to a topic one more for each rule looked at, a call to the
administration ten (docs/pricing.md tells where the numbers come from).
"""

from __future__ import annotations

from emulator.broker.errors import ServerBusy

ADMINISTRATION_CREDITS = 10
"""What one call to the administration costs."""


class Throttle:
    """A namespace's credits: so many at the start of each second, one for each operation. `now` is unix seconds."""

    __slots__ = ("_left", "_second", "credits")

    def __init__(self, credits: int) -> None:
        self.credits = credits
        self._second = -1
        self._left = credits

    def spend(self, operations: int, now: float) -> None:
        """Take credits; what goes beyond them is borrowed once. Raises ServerBusy when none are left."""
        self.charge(0, now)
        if self._left <= 0:
            raise ServerBusy
        self._left -= operations

    def charge(self, operations: int, now: float) -> None:
        """Take credits for what has been let in already; never refuses, the next seconds pay."""
        if int(now) != self._second:
            # A batch larger than what is left is let in, and paid for in the seconds after it.
            debt = min(self._left, 0) if self._second >= 0 else 0
            passed = max(int(now) - self._second, 1) if self._second >= 0 else 1
            self._second = int(now)
            self._left = min(self.credits, debt + self.credits * passed)
        self._left -= operations
