"""Where a backlog is going: when it is drained or full, if it goes on as in the last minutes. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from dashboard.fleet.depth.outlook import Outlook
from dashboard.fleet.state.status import AWAY, Status
from dashboard.models import Pair, PairDepth
from dashboard.models.syphon import WHOLE_PAIR
from dashboard.site.charts import Point, by_key

OVER, LEAST, SINCE_TURN = timedelta(minutes=2), timedelta(seconds=10), timedelta(seconds=30)
LONGEST = timedelta(days=3650)
TURNED = 0.1
"""The share of its range by which a depth has to go back: a syphon and senders make small steps in both directions."""


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


def trend(points: Sequence[Point], room: float, now: datetime, *, is_held: bool = False) -> Trend:
    """The trend of the last minutes of depths. `room`: the messages that still fit; 0 if that is unknown. `is_held`:
    some of the messages wait for more than the syphon, so that no end of the drain is in sight.

    A backlog is judged since it last turned, and one that grows since it began to: what it did before says nothing
    about where it is going.
    """
    recent = _since_its_turn([point for point in points if point[0] >= now - OVER])
    if len(recent) < 2:
        return Trend()
    waiting, grown = recent[-1][1], recent[-1][1] - recent[0][1]
    if grown > 0:
        least = min(depth for _, depth in recent)
        recent = recent[max(n for n, (_, depth) in enumerate(recent) if depth == least) :]
    lasted = recent[-1][0] - recent[0][0]
    if lasted < LEAST:
        return Trend()
    if grown > 0 and room:
        return Trend(full_in=_time_for(room, (waiting - recent[0][1]) / lasted.total_seconds()))
    rate = drain_rate(recent)
    return Trend(drained_in=_time_for(waiting, rate)) if rate and waiting and not is_held else Trend()


def _since_its_turn(points: Sequence[Point]) -> Sequence[Point]:
    """The points since the latest turn; all if there was none, or if that is too short ago to count."""
    turns = _turns([depth for _, depth in points])
    since = points[turns[-1] :] if turns else points
    return since if len(since) >= 3 and since[-1][0] - since[0][0] >= SINCE_TURN else points


def _turns(depths: Sequence[int]) -> Sequence[int]:
    """The places of highs and lows after which the depth went back by at least a tenth of its range."""
    found: list[int] = []
    least = (max(depths) - min(depths)) * TURNED if depths else 0
    low = high = 0
    for place, depth in enumerate(depths):
        low = place if depth <= depths[low] else low
        high = place if depth >= depths[high] else high
        if least and high > low and depths[high] - depth >= least:
            found.append(high)
            low = place
        elif least and low > high and depth - depths[low] >= least:
            found.append(low)
            high = place
    return found


def _time_for(messages: float, per_s: float) -> timedelta | None:
    seconds = messages / per_s
    return timedelta(seconds=seconds) if seconds < LONGEST.total_seconds() else None


def _seconds(span: timedelta | None) -> float | None:
    return span.total_seconds() if span is not None else None


def is_paused(pair: Pair) -> bool:
    """Whether the syphon of the whole pair is paused."""
    return any(pause.queue == WHOLE_PAIR for pause in pair.pauses.all())


def trend_of(
    pair: Pair, depths: Sequence[Point], outlook: Outlook, counts: Mapping[Status, int], now: datetime
) -> Trend:
    """The trend of a pair with these depths, the newest last, and these entities by status.

    A backlog that nobody sends to is never full, even if it grew until a moment ago.
    """
    is_held = bool(pair.pauses.all()) or any(counts.get(status) for status in AWAY)
    return trend(depths, outlook.room if is_held else 0, now, is_held=is_held)


def trends(
    pairs: Iterable[Pair], ahead: Mapping[int, Outlook], counts: Mapping[int, Mapping[Status, int]], now: datetime
) -> Mapping[int, Trend]:
    """The trends of pairs with these outlooks and entities, by key, in one query."""
    known = list(pairs)
    rows = PairDepth.objects.filter(pair__in=known, at__gte=now - OVER).order_by("at")
    depths = by_key(rows.values_list("pair_id", "at", "messages"))
    return {pair.pk: trend_of(pair, depths[pair.pk], ahead[pair.pk], counts.get(pair.pk, {}), now) for pair in known}
