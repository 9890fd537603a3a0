"""The clock of a fleet is that of Redis, because the clocks of its hosts may differ by seconds.

Each process reads it every few seconds and computes the offset of its own clock, so events of several hosts are in
their true order in the control plane, even those that waited while Redis was unavailable.
"""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

_KEPT = 12
_SET_S = 0.05


@dataclass(frozen=True, slots=True)
class _Look:
    """One comparison of the two clocks."""

    ahead_s: float
    within_s: float
    """The uncertainty: half of the response time."""
    offset_s: float
    """Wall clock minus monotonic clock: a different value later means that the wall clock was set."""


class FleetClock:
    """The offset of this host's clock from the fleet's; readable from any thread, ``look`` is for one thread."""

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._steady = wall, steady
        self._looks: deque[_Look] = deque(maxlen=_KEPT)
        self._latest: dict[str, datetime] = {}

    def look(self, ask: Callable[[], datetime]) -> None:
        """Read the fleet's time; raises what ``ask`` raises."""
        began = self._steady()
        answer = ask()
        ended = self._steady()
        within, offset = (ended - began) / 2, self._wall() - ended
        ahead = offset + began + within - answer.timestamp()
        self._looks.append(_Look(ahead, within, offset))

    @property
    def ahead_s(self) -> float:
        """The offset in seconds, by the fastest of the recent responses; 0 if it is within the uncertainty."""
        offset = self._wall() - self._steady()
        looks = [look for look in tuple(self._looks) if abs(look.offset_s - offset) < _SET_S]
        best = min(looks, key=lambda look: look.within_s, default=None)
        return best.ahead_s if best is not None and abs(best.ahead_s) > best.within_s else 0.0

    def fleet_time(self, when: datetime, entity: str) -> datetime:
        """A time of this host's clock in the fleet's time; later than earlier times of the entity, if only slightly."""
        moment, before = when - timedelta(seconds=self.ahead_s), self._latest.get(entity)
        if before is not None and timedelta() <= before - moment < timedelta(seconds=1):
            moment = before + timedelta(microseconds=1)
        self._latest[entity] = moment
        return moment
