"""Where a backlog is going: when it is drained or full, if it goes on as in the last minutes. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from dashboard.site.charts import Point

OVER, LEAST = timedelta(minutes=2), timedelta(seconds=10)
LONGEST = timedelta(days=3650)


@dataclass(frozen=True, slots=True)
class Trend:
    """The remaining time until a backlog is drained, or full; None if it does not get there."""

    drained_in: timedelta | None = None
    full_in: timedelta | None = None


def drain_rate(points: Sequence[Point]) -> float | None:
    """Messages that left per second, without the time in which none moved; None if the depth did not fall."""
    fallen = points[0][1] - points[-1][1] if points else 0
    moving = (later[0] - earlier[0] for earlier, later in pairwise(points) if earlier[1] != later[1])
    lasted_s = sum(span.total_seconds() for span in moving)
    return fallen / lasted_s if fallen > 0 and lasted_s > 0 else None


def trend(points: Sequence[Point], room: float, now: datetime, *, is_paused: bool) -> Trend:
    """The trend of the last minutes of depths. `room`: the messages that still fit; 0 if that is unknown."""
    recent = [point for point in points if point[0] >= now - OVER]
    if len(recent) < 2 or recent[-1][0] - recent[0][0] < LEAST:
        return Trend()
    waiting, grown = recent[-1][1], recent[-1][1] - recent[0][1]
    if grown > 0 and room:
        return Trend(full_in=_time_for(room, grown / (recent[-1][0] - recent[0][0]).total_seconds()))
    rate = drain_rate(recent)
    return Trend(drained_in=_time_for(waiting, rate)) if rate and waiting and not is_paused else Trend()


def _time_for(messages: float, per_s: float) -> timedelta:
    return timedelta(seconds=min(messages / per_s, LONGEST.total_seconds()))
