"""What the pages of pairs show, read from the database in a fixed number of queries whatever the number of entities."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Max, QuerySet, Sum
from django.utils.safestring import SafeString

from dashboard.charts import Point, Series, Window, depth_chart, sparkline, thin
from dashboard.demo_panel import Panel, panel
from dashboard.models import (
    BacklogQueue,
    EntityHealth,
    FailoverEvent,
    Heartbeat,
    Pair,
    PairDepth,
    SyphonPause,
    WaitingSample,
)
from dashboard.models.syphon import WHOLE_PAIR
from dashboard.status import Headline, Status, entity_status, headline, is_held, is_silent, verbs

HOUR = timedelta(hours=1)
SPARK_BUCKETS, CHART_BUCKETS = 60, 180
NAMED_LINES = 5


@dataclass(frozen=True, slots=True)
class EntityRow:
    """One line of the table of entities."""

    entity: EntityHealth
    status: Status
    spark: SafeString

    @property
    def verbs(self) -> tuple[str, ...]:
        return verbs(self.status)


@dataclass(frozen=True, slots=True)
class Chart:
    """The drawing, and its numbers for those who read or hear them."""

    svg: SafeString
    rows: Sequence[tuple[datetime, int]]
    is_empty: bool


@dataclass(frozen=True, slots=True)
class PairBoard:
    """One pair with what a person wants to know of it."""

    pair: Pair
    rows: Sequence[EntityRow]
    in_backlog: int
    dead_lettered: int
    queues: int
    pauses: Sequence[SyphonPause]
    chart: Chart
    demo: Panel | None

    @property
    def paused(self) -> SyphonPause | None:
        """The pause of the whole pair."""
        return next((pause for pause in self.pauses if pause.queue == WHOLE_PAIR), None)

    @property
    def paused_queues(self) -> int:
        return sum(pause.queue != WHOLE_PAIR for pause in self.pauses)


@dataclass(frozen=True, slots=True)
class Board:
    """Everything on the overview."""

    pairs: Sequence[PairBoard]
    headline: Headline
    heartbeat: datetime | None
    is_silent: bool


def board(now: datetime, pairs: Iterable[Pair], entities: Iterable[EntityHealth]) -> Board:
    """The pairs, and the given ones of their entities."""
    known, beat = list(pairs), last_heartbeat()
    silent = is_silent(beat, now)
    window = Window.last(HOUR, now)
    rows = entity_rows(entities, window, silent)
    boards = [pair_board(pair, [row for row in rows if row.entity.pair_id == pair.pk], window) for pair in known]
    summary = headline((row.status for row in rows), sum(one.in_backlog for one in boards))
    return Board(boards, summary, beat, silent)


def pair_board(pair: Pair, rows: Sequence[EntityRow], window: Window) -> PairBoard:
    """One pair's board with the rows that are shown of it."""
    totals = pair.backlog_queues.filter(is_gone=False).aggregate(
        active=Sum("active", default=0), scheduled=Sum("scheduled", default=0), dead=Sum("dead_lettered", default=0)
    )
    return PairBoard(
        pair=pair,
        rows=rows,
        in_backlog=totals["active"] + totals["scheduled"],
        dead_lettered=totals["dead"],
        queues=BacklogQueue.objects.filter(pair=pair, is_gone=False).count(),
        pauses=list(pair.pauses.all()),
        chart=pair_chart(pair, rows, window),
        demo=panel(pair),
    )


def entity_rows(entities: Iterable[EntityHealth], window: Window, fleet_is_silent: bool) -> list[EntityRow]:
    """The entities with their status and sparkline, worst first."""
    known = list(entities)
    samples = _samples(known, window)
    rows = [
        EntityRow(
            entity,
            entity_status(
                entity.state,
                is_held=is_held(entity.held_by, entity.expires, window.end),
                waiting=entity.waiting,
                fleet_is_silent=fleet_is_silent,
            ),
            _spark(entity, samples[entity.pk], window),
        )
        for entity in known
    ]
    return sorted(rows, key=lambda row: (row.status.rank, row.entity.path))


def pair_chart(pair: Pair, rows: Sequence[EntityRow], window: Window) -> Chart:
    """The depth of a pair's backlog over the window: all of it, and the entities most of it is for."""
    total = _before_and_within(PairDepth.objects.filter(pair=pair), "messages", window)
    points = thin(total, window, CHART_BUCKETS)
    samples = _samples([row.entity for row in rows], window)
    ranked = sorted(samples.items(), key=lambda item: -max((value for _, value in item[1]), default=0))
    names = {row.entity.pk: row.entity.path for row in rows}
    lines = [
        Series(names[key], thin(values, window, CHART_BUCKETS), f"series-{number}")
        for number, (key, values) in enumerate(ranked[:NAMED_LINES], start=1)
        if any(value for _, value in values)
    ]
    now_deep = points[-1][1] if points else 0
    label = f"Messages in the backlog of {pair.name} in the last hour; now {now_deep:,}"
    svg = depth_chart([Series("total", points, "total"), *lines], window, label)
    return Chart(svg, thin(total, window, 12), is_empty=not points)


def recent_events(pair: str | None = None, limit: int = 12) -> list[FailoverEvent]:
    """The newest events, of one pair or of all."""
    events = FailoverEvent.objects.filter(pair=pair) if pair else FailoverEvent.objects.all()
    return list(events[:limit])


def last_heartbeat() -> datetime | None:
    """When any worker was last heard of."""
    last: datetime | None = Heartbeat.objects.aggregate(last=Max("seen_at"))["last"]
    return last


def _samples(entities: Sequence[EntityHealth], window: Window) -> dict[int, list[Point]]:
    found: dict[int, list[Point]] = defaultdict(list)
    rows = WaitingSample.objects.filter(entity__in=[e.pk for e in entities], at__gte=window.start).order_by("at")
    for key, at, waiting in rows.values_list("entity_id", "at", "waiting"):
        found[key].append((at, waiting))
    return found


def _before_and_within(rows: QuerySet[PairDepth], field: str, window: Window) -> list[Point]:
    """The samples of the window, begun with the last one before it: a depth holds until it is measured again."""
    before = rows.filter(at__lt=window.start).order_by("-at").values_list("at", field).first()
    within = list(rows.filter(at__gte=window.start).order_by("at").values_list("at", field))
    return [(window.start, before[1]), *within] if before else within


def _spark(entity: EntityHealth, points: list[Point], window: Window) -> SafeString:
    top = max((value for _, value in points), default=0)
    waited = f"at most {top:,} waiting" if top else "nothing waiting"
    return sparkline(thin(points, window, SPARK_BUCKETS), window, f"{entity.path}: {waited} in the last hour")


def entity_chart(entity: EntityHealth, window: Window) -> Chart:
    """How many messages for one entity waited in the backlog."""
    samples = _samples([entity], window)[entity.pk]
    label = f"Messages for {entity.path} in the backlog in the last hour; now {entity.waiting or 0:,}"
    svg = depth_chart([Series("waiting", thin(samples, window, CHART_BUCKETS), "total")], window, label)
    return Chart(svg, thin(samples, window, 12), is_empty=not samples)
