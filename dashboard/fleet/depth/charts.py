"""Charts of backlog depth over time, of pairs and of entities, read from the database."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from django.db.models import BooleanField, F, Value
from django.utils.safestring import SafeString

from dashboard.fleet.depth.marks import marks_of, with_drained
from dashboard.fleet.depth.peaks import Span, largest, over
from dashboard.models import EntityHealth, Pair, PairDepth, WaitingSample
from dashboard.models.backlog import WHOLE_BACKLOG
from dashboard.site.charts import Chart, Mark, Point, Series, Window, by_key, chart, thin
from dashboard.site.plots import TOTAL, hue, looks, sparkline

HOUR, LEAST = timedelta(hours=1), timedelta(minutes=10)
SPANS = tuple(timedelta(minutes=minutes) for minutes in (10, 12, 16, 20, 24, 30, 40, 60))
"""The spans of a chart with little data; their quarters are round numbers."""
SPARK_BUCKETS, NAMED_LINES = 60, 5
UNIT = "messages"
Samples = Mapping[int, Sequence[Point]]


def depths_and_samples(
    pairs: Iterable[Pair], entities: Iterable[EntityHealth], since: datetime
) -> tuple[Samples, Samples]:
    """Messages in the backlog by pair key and by entity key, in one query.

    Those of pairs start shortly before `since`: a depth holds until the next sample.
    """
    keys = [entity.pk for entity in entities]
    depths = PairDepth.objects.filter(pair__in=pairs, at__gte=since - LEAST)
    samples = WaitingSample.objects.filter(entity__in=keys, at__gte=since)
    whole = depths.annotate(of=_boolean(True), key=F("pair_id"), value=F("messages"))
    parts = samples.annotate(of=_boolean(False), key=F("entity_id"), value=F("waiting"))
    columns = ("of", "key", "at", "value")
    rows = list(whole.values_list(*columns).union(parts.values_list(*columns), all=True).order_by("at"))
    return by_key(row[1:] for row in rows if row[0]), by_key(row[1:] for row in rows if not row[0])


def _boolean(value: bool) -> Value:
    return Value(value, output_field=BooleanField())


def waiting_samples(entities: Iterable[EntityHealth], since: datetime) -> Samples:
    """Messages in the backlog by entity key."""
    keys = [entity.pk for entity in entities]
    rows = WaitingSample.objects.filter(entity__in=keys, at__gte=since).order_by("at")
    return by_key(rows.values_list("entity_id", "at", "waiting"))


def last_hour(now: datetime, *measured: Samples) -> Window:
    """The last hour, or the shortest span that contains all samples."""
    began = min((points[0][0] for samples in measured for points in samples.values() if points), default=now - HOUR)
    return Window.last(next((span for span in SPANS if now - began <= span), HOUR), now)


def pair_chart(
    pair: Pair, total: Sequence[Point], parts: Mapping[str, Sequence[Point]], window: Window, marks: Sequence[Mark]
) -> Chart:
    """All messages in a pair's backlog, and the entities with the most of them, by path."""
    return _pair_chart(pair, total, {path: parts[path] for path in _largest(parts)}, window, marks)


def pair_chart_over(pair: Pair, span: Span, now: datetime) -> Chart:
    """The backlog of a pair over more than an hour, and the entities with the most of it."""
    paths = largest(pair, span, now, NAMED_LINES)
    found, window = over(pair, [WHOLE_BACKLOG, *paths], span, now), Window.last(span.length, now)
    marks = marks_of([pair.name], window.start, window.end).get(pair.name, ())
    return _pair_chart(pair, found[WHOLE_BACKLOG], {path: found[path] for path in paths}, window, marks, span.step)


def _pair_chart(
    pair: Pair,
    total: Sequence[Point],
    parts: Mapping[str, Sequence[Point]],
    window: Window,
    marks: Sequence[Mark],
    step: str = "",
) -> Chart:
    tones = dict(zip(sorted(parts), looks(sorted(parts)), strict=True))
    lines = [Series("total", total, TOTAL), *(Series(path, points, tones[path]) for path, points in parts.items())]
    subject = f"Messages in the backlog of {pair.name}"
    return chart(lines, window, subject, UNIT, with_drained(marks, total), step)


def entity_chart(
    entity: EntityHealth, points: Sequence[Point], window: Window, marks: Sequence[Mark], step: str = ""
) -> Chart:
    """The messages of one entity in the backlog."""
    line = Series(entity.path, points, hue(entity.path))
    return chart([line], window, f"Messages for {entity.path} in the backlog", UNIT, marks, step)


def entity_chart_over(entity: EntityHealth, span: Span, now: datetime) -> Chart:
    """The messages of one entity in the backlog over more than an hour."""
    points, window = over(entity.pair, [entity.path], span, now)[entity.path], Window.last(span.length, now)
    return entity_chart(entity, points, window, marks_of_entity(entity, points, window), span.step)


def marks_of_entity(entity: EntityHealth, points: Sequence[Point], window: Window) -> Sequence[Mark]:
    """What happened to an entity whose depths these are."""
    name = entity.pair.name
    return with_drained(marks_of([name], window.start, window.end, entity.path).get(name, ()), points)


def spark(entity: EntityHealth, points: Sequence[Point], window: Window) -> SafeString:
    """The depth as a sparkline."""
    top = max((value for _, value in points), default=0)
    waited = f"at most {top:,} waiting" if top else "nothing waiting"
    begun = [(window.start, 0), *points] if points and points[0][0] > window.start else points  # the backlog was empty
    label = f"{entity.path}: {waited} in the {window.words}"
    return sparkline(thin(begun, window, SPARK_BUCKETS), window, label, hue(entity.path))


def _largest(parts: Mapping[str, Sequence[Point]]) -> list[str]:
    peaks = {path: max((value for _, value in points), default=0) for path, points in parts.items()}
    return sorted((path for path in peaks if peaks[path]), key=lambda path: -peaks[path])[:NAMED_LINES]
