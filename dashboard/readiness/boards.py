"""The content of the readiness pages, in a number of queries that does not depend on the size of the fleet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, Min, Q, QuerySet

from dashboard.models import Pair, PairReadiness, Readiness
from dashboard.readiness.history import KEPT, Turn, changes, turns
from dashboard.readiness.score import ENDANGERED, OF_ENTITY, READY, WEIGHTS, Check, Result, faults_of, word
from dashboard.site.charts import Chart, Series, Window, chart
from dashboard.site.plots import TOTAL

STATES = {
    "ready": Q(score__gte=READY),
    "weak": Q(score__gte=ENDANGERED, score__lt=READY),
    "endangered": Q(score__lt=ENDANGERED),
}
BADGES = {"ready": "healthy", "weak": "failing", "endangered": "failed-over", "unknown": "unknown"}
RESULT_BADGES = {"good": "healthy", "weak": "failing", "bad": "failed-over", "unknown": "unknown"}
SPANS = (*(timedelta(minutes=minutes) for minutes in (10, 60, 240, 720, 1440, 4320, 10080, 21600)), KEPT)
DAY = timedelta(days=1)
FULL = 100
"""The score without a fault: the top of every chart of scores, so that a low one looks low."""


def is_stale(checked_at: datetime | None, now: datetime) -> bool:
    """Whether the last check is outdated, that is, older than about three intervals."""
    limit = timedelta(seconds=3 * settings.READINESS_INTERVAL_S + 15)
    return checked_at is None or now - checked_at > limit


@dataclass(frozen=True, slots=True)
class PairLine:
    """One pair with its checks, and the number of its entities by state."""

    pair: Pair
    row: PairReadiness | None
    is_stale: bool
    checks: Sequence[Check]
    counts: dict[str, int]
    lowest: int | None

    @property
    def score(self) -> int | None:
        """None without a recent check."""
        return None if self.row is None or self.is_stale else self.row.score

    @property
    def faults(self) -> list[Check]:
        return faults_of(self.checks)

    @property
    def good(self) -> int:
        return len(self.checks) - len(self.faults)


def pair_lines(pairs: Iterable[Pair], now: datetime) -> list[PairLine]:
    """The pairs with the counts of their entities; in three queries."""
    known = list(pairs)
    rows = {row.pair_id: row for row in PairReadiness.objects.filter(pair__in=known)}
    sums = {one["pair"]: one for one in _counted(Readiness.objects.filter(pair__in=known))}
    return [_line(pair, rows.get(pair.pk), sums.get(pair.pk, {}), now) for pair in known]


def _counted(rows: QuerySet[Readiness]) -> Iterable[Any]:
    counts = {state: Count("pk", filter=condition) for state, condition in STATES.items()}
    return rows.values("pair").annotate(lowest=Min("score"), **counts).order_by()


def _line(pair: Pair, row: PairReadiness | None, sums: dict[str, int], now: datetime) -> PairLine:
    checks = [Check.from_json(reported) for reported in row.checks] if row else []
    counts = {state: sums.get(state, 0) for state in STATES}
    stale = row is None or is_stale(row.checked_at, now)
    return PairLine(pair, row, stale, checks, counts, sums.get("lowest"))


def score_now(row: PairReadiness | Readiness, now: datetime) -> int | None:
    """The score; None without a recent check."""
    return None if is_stale(row.checked_at, now) else row.score


@dataclass(frozen=True, slots=True)
class EntityBoard:
    """One entity: its checks and their history."""

    row: Readiness
    is_stale: bool
    checks: Sequence[Check]
    chart: Chart
    turns: Sequence[Turn]

    @property
    def score(self) -> int | None:
        return None if self.is_stale else self.row.score

    @property
    def status(self) -> str:
        """The state that sets its colour."""
        return BADGES[word(self.score)]


def entity_board(row: Readiness, now: datetime) -> EntityBoard:
    """The readiness of one entity."""
    reported = list(turns(changes(row.pair, row.entity, now - KEPT), row.entity))
    began = reported[0].at if reported else now - KEPT
    window = Window.last(next((span for span in SPANS if now - began <= span), KEPT), now)  # the shortest with all
    scores = [Series("score", [(turn.at, turn.score) for turn in reported] or [(window.start, row.score)], TOTAL)]
    shown = chart(scores, window, f"Readiness of {row.entity}", f"points of {FULL}", least_top=FULL)
    return EntityBoard(row, is_stale(row.checked_at, now), every_check(row), shown, reported[::-1][:20])


def every_check(row: Readiness) -> list[Check]:
    """The checks of an entity in the order of the table of weights, with stored findings."""
    shared = PairReadiness.objects.filter(pair=row.pair).first()
    kept = {one["name"]: Check.from_json(one) for one in (shared.checks if shared else [])}
    kept |= {one["name"]: Check.from_json(one) for one in row.reasons}
    kept |= {name: Check(name, Result.GOOD) for name in OF_ENTITY if row.own.get(name) == Result.GOOD}
    return [kept[name] for name in WEIGHTS if name in kept]
