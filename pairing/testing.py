"""Fakes for tests, the users' own included: a clock that is turned by hand."""

from datetime import UTC, datetime, timedelta

_BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


class ManualClock:
    """A clock that stands until it is advanced; ``now`` begins at 0, on the first day of 2026."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = now

    def now(self) -> float:
        """Seconds since the beginning."""
        return self._now

    def utc(self, at: float) -> datetime:
        """The aware UTC time of the moment ``at``."""
        return _BEGINNING + timedelta(seconds=at)

    def at(self, when: datetime) -> float:
        """The moment of an aware time."""
        return (when - _BEGINNING).total_seconds()

    def advance(self, by: float | timedelta) -> None:
        """Let so many seconds pass; ValueError for a negative number."""
        seconds = by.total_seconds() if isinstance(by, timedelta) else by
        if seconds < 0:
            raise ValueError(f"time does not go back: {seconds}")
        self._now += seconds
