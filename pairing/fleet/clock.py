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
    """By how much that may be wrong: half of the time the answer took."""
    offset_s: float
    """The wall's time less the steady one's: a different one later means that the clock was set since."""


class FleetClock:
    """How far this machine's clock is ahead of the fleet's; safe to read from any thread, ``look`` is for one."""

    def __init__(self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._wall, self._steady = wall, steady
        self._looks: deque[_Look] = deque(maxlen=_KEPT)
        self._latest: dict[str, datetime] = {}

    def look(self, ask: Callable[[], datetime]) -> None:
        """Asks for the fleet's time; raises what ``ask`` raises."""
        began = self._steady()
        answer = ask()
        ended = self._steady()
        within, offset = (ended - began) / 2, self._wall() - ended
        ahead = offset + began + within - answer.timestamp()
        self._looks.append(_Look(ahead, within, offset))

    @property
    def ahead_s(self) -> float:
        """Seconds, by the quickest of the recent answers; 0 where that is no more than it may be wrong by."""
        offset = self._wall() - self._steady()
        looks = [look for look in tuple(self._looks) if abs(look.offset_s - offset) < _SET_S]
        best = min(looks, key=lambda look: look.within_s, default=None)
        return best.ahead_s if best is not None and abs(best.ahead_s) > best.within_s else 0.0

    def fleet_time(self, when: datetime, entity: str) -> datetime:
        """A time of this machine's clock by the fleet's; later than those of the entity before, if barely."""
        moment, before = when - timedelta(seconds=self.ahead_s), self._latest.get(entity)
        if before is not None and timedelta() <= before - moment < timedelta(seconds=1):
            moment = before + timedelta(microseconds=1)
        self._latest[entity] = moment
        return moment
