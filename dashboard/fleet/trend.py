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
    """The remaining time until a backlog is drained, or full; None if it does not get there within ten years."""

    drained_in: timedelta | None = None
    full_in: timedelta | None = None

    def as_json(self) -> dict[str, float | None]:
        """For the API."""
        return {"drained_in_s": _seconds(self.drained_in), "full_in_s": _seconds(self.full_in)}


def drain_rate(points: Sequence[Point]) -> float | None:
    """Messages that left per second, without the time in which none moved; None if the depth did not fall."""
    fallen = points[0][1] - points[-1][1] if points else 0
    moving = (later[0] - earlier[0] for earlier, later in pairwise(points) if earlier[1] != later[1])
    lasted_s = sum(span.total_seconds() for span in moving)
    return fallen / lasted_s if fallen > 0 and lasted_s > 0 else None


def trend(points: Sequence[Point], room: float, now: datetime, *, is_paused: bool) -> Trend:
    """The trend of the last minutes of depths. `room`: the messages that still fit; 0 if that is unknown.

    A backlog is judged since it last turned: what it did before says nothing about where it is going.
    """
    recent = _since_its_turn([point for point in points if point[0] >= now - OVER])
    if len(recent) < 2:
        return Trend()
    waiting, grown = recent[-1][1], recent[-1][1] - recent[0][1]
    if grown > 0 and room:
        return Trend(full_in=_time_for(room, grown / _lasted(recent).total_seconds()))
    rate = drain_rate(recent)
    return Trend(drained_in=_time_for(waiting, rate)) if rate and waiting and not is_paused else Trend()


def _since_its_turn(points: Sequence[Point]) -> Sequence[Point]:
    """The points since the last lowest or highest one, whichever is later; none if too little time has passed since."""
    depths = [depth for _, depth in points]
    turns = {max(place for place, depth in enumerate(depths) if depth == edge(depths)) for edge in (min, max) if depths}
    after = (points[turn:] for turn in sorted(turns, reverse=True))
    return next((some for some in after if _lasted(some) >= LEAST), [])


def _lasted(points: Sequence[Point]) -> timedelta:
    return points[-1][0] - points[0][0]


def _time_for(messages: float, per_s: float) -> timedelta | None:
    seconds = messages / per_s
    return timedelta(seconds=seconds) if seconds < LONGEST.total_seconds() else None


def _seconds(span: timedelta | None) -> float | None:
    return span.total_seconds() if span is not None else None
