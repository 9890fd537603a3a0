"""The fill level of a backlog queue and its forecast, from observed sizes. No I/O, no clock of its own."""

from typing import NamedTuple

FULL = 0.8
"""A queue this full is not chosen while another one is left."""
SOON_S = 30 * 60.0
"""A queue that will be full within this time causes a warning."""
_SHORTEST_S = 5.0
_SMOOTHING = 0.5


class Fill(NamedTuple):
    """The last observed size of one queue."""

    size: int
    """Bytes."""
    limit: int
    """Bytes; at least 1."""
    at: float
    """When it was seen, in seconds of the observers' common clock."""
    rate: float = 0.0
    """Growth in bytes per second; negative while it drains."""

    @property
    def share(self) -> float:
        """From 0 (empty) to 1 (full)."""
        return self.size / self.limit

    @property
    def full_in_s(self) -> float | None:
        """Seconds until it is full at the present rate; None if it does not grow."""
        if self.size >= self.limit:
            return 0.0
        return (self.limit - self.size) / self.rate if self.rate > 0 else None

    @property
    def is_worrying(self) -> bool:
        """Whether operators should be warned: it is 80 % full, or will be full soon."""
        return self.share >= FULL or (self.full_in_s is not None and self.full_in_s <= SOON_S)

    def describe(self) -> str:
        """The text of a warning."""
        if self.full_in_s is None or self.full_in_s == 0.0:
            return f"{self.share:.0%} full"
        return f"{self.share:.0%} full; full in {_duration(self.full_in_s)} at this rate"


def seen(before: Fill | None, size: int, limit: int, at: float) -> Fill:
    """The fill after another observation; observations less than 5 s apart do not change the rate."""
    limit = max(limit, 1)
    if before is None or at <= before.at:
        return Fill(size, limit, at)
    if at - before.at < _SHORTEST_S:
        return Fill(size, limit, before.at, before.rate) if size == before.size else before
    latest = (size - before.size) / (at - before.at)
    grew_before = before.rate > 0 and latest > 0  # a change of direction counts immediately
    rate = before.rate + _SMOOTHING * (latest - before.rate) if grew_before else latest
    return Fill(size, limit, at, rate)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
