"""Throttling by credits, as in the service: operations spend them, and they are renewed each second.

A message sent, received or peeked costs one credit, sending to a topic one more for each rule, a call to the
administration ten (docs/pricing.md names the sources).
"""

from __future__ import annotations

from emulator.broker.errors import ServerBusy

ADMINISTRATION_CREDITS = 10
"""What one call to the administration costs."""


class Throttle:
    """The credits of a namespace, renewed at the start of each second. `now` is unix seconds."""

    __slots__ = ("_left", "_second", "credits")

    def __init__(self, credits: int) -> None:
        self.credits = credits
        self._second = -1
        self._left = credits

    def spend(self, operations: int, now: float) -> None:
        """Spend credits, the last ones on credit of the next second. Raises ServerBusy when none are left."""
        self.charge(0, now)
        if self._left <= 0:
            raise ServerBusy
        self._left -= operations

    def charge(self, operations: int, now: float) -> None:
        """Spend credits for operations already admitted, if need be those of the next seconds."""
        if int(now) != self._second:
            # A batch larger than the remaining credits was admitted; the following seconds pay for it.
            debt = min(self._left, 0) if self._second >= 0 else 0
            passed = max(int(now) - self._second, 1) if self._second >= 0 else 1
            self._second = int(now)
            self._left = min(self.credits, debt + self.credits * passed)
        self._left -= operations
