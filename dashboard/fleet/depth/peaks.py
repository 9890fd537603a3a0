"""Depth over days: samples are rolled up into the peak of each step, so that charts read few rows."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import Max

from dashboard.models import DepthPeak, Pair, PairDepth, WaitingSample
from dashboard.models.backlog import WHOLE_BACKLOG
from dashboard.site.charts import Point, by_key
from dashboard.site.database import upsert

FINE_S, COARSE_S = 300, 3600
RAW = timedelta(hours=1)
"""Newer data is drawn from the samples."""


@dataclass(frozen=True, slots=True)
class Span:
    """A time span of a chart, and its step (None: every sample)."""

    key: str
    words: str
    length: timedelta
    step_s: int | None = None

    @property
    def step(self) -> str:
        """The period of which each point is the highest: `5 min`; empty if every sample is drawn."""
        if self.step_s is None:
            return ""
        return f"{self.step_s // 60} min" if self.step_s < COARSE_S else f"{self.step_s // 3600} h"


SPANS = {
    span.key: span
    for span in (
        Span("", "last hour", timedelta(hours=1)),
        Span("6h", "last 6 hours", timedelta(hours=6), FINE_S),
        Span("1d", "last day", timedelta(days=1), FINE_S),
        Span("7d", "last 7 days", timedelta(days=7), COARSE_S),
        Span("30d", "last 30 days", timedelta(days=30), COARSE_S),
    )
}


@dataclass(frozen=True, slots=True)
class Step:
    """The peak of one step, and the depth at its end."""

    at: datetime
    peak: int
    last: int


def steps(points: Iterable[Point], step_s: int) -> list[Step]:
    """The steps of these points, which are in chronological order."""
    found: dict[datetime, Step] = {}
    for at, value in points:
        begin = begin_of(at, step_s)
        known = found.get(begin)
        found[begin] = Step(begin, max(value, known.peak) if known else value, value)
    return list(found.values())


def begin_of(at: datetime, step_s: int) -> datetime:
    """Start of the step that contains this time."""
    return datetime.fromtimestamp(at.timestamp() // step_s * step_s, UTC)


def points_of(found: Iterable[Step], step_s: int) -> list[Point]:
    """The points to draw: each peak, and the depth at the end of its step, which holds until the next."""
    length = timedelta(seconds=step_s)
    drawn: list[Point] = []
    for step in found:
        drawn.append((step.at, step.peak))
        if step.last != step.peak:
            drawn.append((step.at + length * 0.9, step.last))
    return drawn


def roll_up(pair: Pair) -> int:
    """Update the peaks of a pair and its entities. Returns the number of steps written.

    The newest steps are recomputed from their samples, so that repeated or late calls have the same result.
    """
    written = 0
    for step_s in (FINE_S, COARSE_S):
        since = _since(pair, step_s)
        totals = PairDepth.objects.filter(pair=pair, at__gte=since).order_by("at").values_list("at", "messages")
        samples = WaitingSample.objects.filter(entity__pair=pair, at__gte=since).order_by("at")
        parts = by_key(samples.values_list("entity__path", "at", "waiting").iterator())
        rows = [_row(pair, WHOLE_BACKLOG, step_s, step) for step in steps(totals.iterator(), step_s)]
        rows += [_row(pair, path, step_s, step) for path, points in parts.items() for step in steps(points, step_s)]
        upsert(rows, ("pair", "path", "step_s", "at"), ("peak", "last"))
        written += len(rows)
    return written


def _since(pair: Pair, step_s: int) -> datetime:
    """Start of the steps to recompute: one before the newest, as samples can be late."""
    newest: datetime | None = DepthPeak.objects.filter(pair=pair, step_s=step_s).aggregate(at=Max("at"))["at"]
    return newest - timedelta(seconds=step_s) if newest else datetime(2000, 1, 1, tzinfo=UTC)


def _row(pair: Pair, path: str, step_s: int, step: Step) -> DepthPeak:
    return DepthPeak(pair=pair, path=path, step_s=step_s, at=step.at, peak=step.peak, last=step.last)


def largest(pair: Pair, span: Span, now: datetime, most: int) -> list[str]:
    """The entities with the most waiting messages in the span, largest first."""
    known = DepthPeak.objects.filter(pair=pair, step_s=span.step_s or COARSE_S, at__gte=now - span.length, peak__gt=0)
    by_path = known.exclude(path=WHOLE_BACKLOG).values("path").annotate(most=Max("peak")).order_by("-most", "path")
    return [row["path"] for row in by_path[:most]]


def over(pair: Pair, paths: Sequence[str], span: Span, now: datetime) -> Mapping[str, list[Point]]:
    """The depths of a pair (`*`) and of entities over a span: peaks, then samples that are not rolled up yet."""
    if span.step_s is None:
        raise ValueError("the last hour is drawn from its samples")
    known = DepthPeak.objects.filter(pair=pair, path__in=paths, step_s=span.step_s, at__gte=now - span.length)
    found: dict[str, list[Step]] = defaultdict(list)
    for path, at, peak, last in known.order_by("path", "at").values_list("path", "at", "peak", "last"):
        found[path].append(Step(at, peak, last))
    newest = max((step.at for one in found.values() for step in one), default=now - RAW)
    tails = _tails(pair, paths, max(newest + timedelta(seconds=span.step_s), now - RAW))
    return {path: points_of(found[path], span.step_s) + tails.get(path, []) for path in paths}


def filled(samples: Sequence[Point], known: Iterable[Step], step_s: int, since: datetime) -> list[Point]:
    """The samples, or the peaks of steps whose samples are pruned.

    A step's peak is placed at its start, or at `since` if that is later.
    """
    length = timedelta(seconds=step_s)
    kept: dict[datetime, list[Point]] = defaultdict(list)
    for at, value in samples:
        kept[begin_of(at, step_s)].append((at, value))
    drawn = list(samples)
    for step in known:
        there = kept.get(step.at, [])
        if step.peak > max((value for _, value in there), default=-1):
            first = since if step.at < since < step.at + length else step.at
            drawn.append((first, step.peak))
            if not there and step.last != step.peak:
                drawn.append((max(step.at + length * 0.9, first), step.last))
    return sorted(drawn, key=lambda point: point[0])


def _tails(pair: Pair, paths: Sequence[str], since: datetime) -> dict[str, list[Point]]:
    totals = PairDepth.objects.filter(pair=pair, at__gte=since).order_by("at").values_list("at", "messages")
    samples = WaitingSample.objects.filter(entity__pair=pair, entity__path__in=paths, at__gte=since).order_by("at")
    parts = by_key(samples.values_list("entity__path", "at", "waiting"))
    return {**parts, **({WHOLE_BACKLOG: list(totals)} if WHOLE_BACKLOG in paths else {})}
