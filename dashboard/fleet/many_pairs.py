"""The table of pairs of a large fleet, worst first, and which of them have a card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Min

from dashboard.fleet.depth.outlook import outlooks
from dashboard.fleet.depth.trend import Trend, is_paused, trends
from dashboard.fleet.pairs.pairs_file import tags
from dashboard.fleet.state.status import AWAY, Status
from dashboard.models import EntityHealth, Pair

MANY, MOST_CARDS, MOST_ROWS = 12, 2, 3
"""From more pairs on there is a table, with cards of a few that are not healthy, and some entities of each."""
Counts = Mapping[int, Mapping[Status, int]]


@dataclass(frozen=True, slots=True)
class PairLine:
    """One of `watched_pairs` with its entities by status."""

    pair: Pair
    counts: Mapping[Status, int]
    trend: Trend
    oldest: datetime | None
    tags: Mapping[str, str]

    @property
    def status(self) -> Status:
        return worst(self.counts)

    @property
    def away(self) -> int:
        return sum(self.counts.get(status, 0) for status in AWAY)

    @property
    def failing(self) -> int:
        return self.counts.get(Status.FAILING, 0)

    @property
    def backlog(self) -> int:
        found: int = vars(self.pair)["waiting"]
        return found

    @property
    def syphon(self) -> str:
        return "Paused" if is_paused(self.pair) else "Stalled" if vars(self.pair)["stalls"] else "Running"


def worst(counts: Mapping[Status, int]) -> Status:
    """The worst status of any of the entities; unknown without any."""
    return next((status for status in Status if counts.get(status)), Status.UNKNOWN)


def worst_pairs(pairs: Sequence[Pair], counts: Counts) -> list[Pair]:
    """Worst first: by status, entities that are failed over, and backlog."""

    def order(pair: Pair) -> tuple[int, int, int, str]:
        own = counts.get(pair.pk, {})
        rank = worst(own).rank if own else len(Status)
        return rank, -sum(own.get(status, 0) for status in AWAY), -vars(pair)["waiting"], pair.name

    return sorted(pairs, key=order)


def pair_lines(pairs: Sequence[Pair], counts: Counts, now: datetime) -> list[PairLine]:
    """The lines of a page of pairs, in five queries."""
    moving, tagged = trends(pairs, outlooks(pairs, now), counts, now), tags()
    waiting = EntityHealth.objects.filter(pair__in=pairs, waiting__gt=0).order_by().values_list("pair")
    oldest = dict(waiting.annotate(oldest=Min("oldest_waiting_at")))
    return [
        PairLine(pair, counts.get(pair.pk, {}), moving[pair.pk], oldest.get(pair.pk), tagged.get(pair.name, {}))
        for pair in pairs
    ]
