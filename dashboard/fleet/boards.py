"""The content of the pages of pairs, read in a number of queries that does not depend on the size of the fleet."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Exists, F, Max, OuterRef, Q, QuerySet, Subquery, Sum
from django.utils.safestring import SafeString

from dashboard.fleet.depth import HOUR, Chart, Samples, depths_and_samples, last_hour, pair_chart, spark
from dashboard.fleet.ledgers import stalled
from dashboard.fleet.outlook import Outlook, outlooks
from dashboard.fleet.paces import paces_of
from dashboard.fleet.status import Headline, Status, entity_status, headline, is_held, is_silent, verbs
from dashboard.models import EntityHealth, Heartbeat, Pair, Readiness, SyphonPause
from dashboard.models.syphon import WHOLE_PAIR
from dashboard.site.charts import Window
from pairing.fleet.shared_health import Pace

MOST_NAMED = 3
PanelOf = Callable[[Pair], object | None]
"""Additional content of a pair, for `demo/panel.html`; None if there is none."""


def no_panel(pair: Pair) -> None:
    """Nothing else."""


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
class Totals:
    """The backlog of one pair in numbers."""

    messages: int = 0
    dead_lettered: int = 0
    queues: int = 0
    for_entities: int = 0
    """Those of `messages` that wait for entities of the pair."""
    sampled_at: datetime | None = None
    """When all of this was counted."""

    @property
    def for_others(self) -> int:
        """Messages without a known destination, or in queues of other primaries."""
        return max(0, self.messages - self.for_entities)


@dataclass(frozen=True, slots=True)
class PairBoard:
    """One pair with its state."""

    pair: Pair
    rows: Sequence[EntityRow]
    totals: Totals
    pauses: Sequence[SyphonPause]
    chart: Chart
    demo: object | None
    paces: Mapping[str, Pace]
    outlook: Outlook

    @property
    def pace(self) -> Pace | None:
        """The limit of the whole pair's syphon."""
        return self.paces.get(WHOLE_PAIR)

    @property
    def other_paces(self) -> int:
        """Number of its queues and entities with their own limit."""
        return len(self.paces.keys() - {WHOLE_PAIR})

    @property
    def paused(self) -> SyphonPause | None:
        """The pause of the whole pair."""
        return next((pause for pause in self.pauses if pause.queue == WHOLE_PAIR), None)

    @property
    def is_stalled(self) -> bool:
        """Whether the syphon receives but does not deliver, although it is not paused."""
        return bool(vars(self.pair)["stalls"])

    @property
    def other_pauses(self) -> int:
        """Number of its queues and entities whose syphon is paused individually."""
        return sum(pause.queue != WHOLE_PAIR for pause in self.pauses)


@dataclass(frozen=True, slots=True)
class Board:
    """The content of the overview."""

    pairs: Sequence[PairBoard]
    headline: Headline
    heartbeat: datetime | None
    is_silent: bool

    @property
    def troubled(self) -> list[EntityRow]:
        """The entities that the headline names: those failed over longest, limited in number."""
        away = (Status.FAILED_OVER, Status.HELD)
        wanted = away if self.headline.status in away else (Status.FAILING,)
        rows = [row for one in self.pairs for row in one.rows if row.status in wanted and row.entity.since]
        return sorted(rows, key=lambda row: row.entity.since or datetime.max)[:MOST_NAMED]


def board(
    now: datetime, pairs: Iterable[Pair], entities: Iterable[EntityHealth], panel_of: PanelOf = no_panel
) -> Board:
    """The pairs and the given entities. The headline covers all entities of these pairs."""
    known, shown = list(pairs), list(entities)
    beat = _heard(known)
    silent, totals = is_silent(beat, now), {pair.pk: _totals(pair) for pair in known}
    by_key = {pair.pk: pair for pair in known}
    for entity in shown:  # avoids a join or a query per entity
        entity.pair = by_key[entity.pair_id]
    depths, samples = depths_and_samples(known, shown, now - HOUR)
    window = last_hour(now, depths)
    rows = entity_rows(shown, samples, window, silent)
    limited, ahead = paces_of(pair.name for pair in known), outlooks(known, now)
    boards = [
        _pair_board(
            pair,
            [row for row in rows if row.entity.pair_id == pair.pk],
            totals.get(pair.pk, Totals()),
            depths,
            samples,
            window,
            limited.get(pair.name, {}),
            panel_of(pair),
            ahead[pair.pk],
        )
        for pair in known
    ]
    return Board(boards, headline_of(known, now, silent), beat, silent)


def headline_of(pairs: Sequence[Pair], now: datetime, fleet_is_silent: bool) -> Headline:
    """The headline of `watched_pairs`, the same on pages and in the API."""
    waiting = {pair: _totals(pair).messages for pair in pairs}
    is_paused = any(count and _is_paused(pair) for pair, count in waiting.items())
    return headline(status_counts(pairs, now, fleet_is_silent), sum(waiting.values()), is_paused=is_paused)


def _is_paused(pair: Pair) -> bool:
    return any(pause.queue == WHOLE_PAIR for pause in pair.pauses.all())


def entity_rows(
    entities: Iterable[EntityHealth], samples: Samples, window: Window, fleet_is_silent: bool
) -> list[EntityRow]:
    """The entities with their status and sparkline, worst first."""
    rows = [
        EntityRow(
            entity, status_of(entity, window.end, fleet_is_silent), spark(entity, samples.get(entity.pk, ()), window)
        )
        for entity in entities
    ]
    return sorted(rows, key=lambda row: (row.status.rank, row.entity.path))


def status_of(entity: EntityHealth, now: datetime, fleet_is_silent: bool) -> Status:
    """The line of one entity."""
    return entity_status(
        entity.state,
        is_held=is_held(entity.held_by, entity.expires, now),
        waiting=entity.waiting,
        fleet_is_silent=fleet_is_silent,
    )


def status_counts(pairs: Iterable[Pair], now: datetime, fleet_is_silent: bool) -> Mapping[Status, int]:
    """Number of entities of the pairs by status; the rule of status_of as a query."""
    held = Q(state="failed_over", held_by__isnull=False) & (Q(expires__isnull=True) | Q(expires__gt=now))
    counted = (
        EntityHealth.objects.present()
        .filter(pair__in=pairs)
        .aggregate(
            all=Count("pk"),
            away=Count("pk", filter=Q(state="failed_over")),
            held=Count("pk", filter=held),
            failing=Count("pk", filter=Q(state="failing")),
            unknown=Count("pk", filter=Q(state="unknown")),
            draining=Count("pk", filter=Q(state="healthy", waiting__gt=0)),
            draining_unknown=Count("pk", filter=Q(state="unknown", waiting__gt=0)),
        )
    )
    unknown = counted["unknown"] if fleet_is_silent else 0
    draining = counted["draining"] + (0 if fleet_is_silent else counted["draining_unknown"])
    counts = {
        Status.FAILED_OVER: counted["away"] - counted["held"],
        Status.HELD: counted["held"],
        Status.FAILING: counted["failing"],
        Status.UNKNOWN: unknown,
        Status.DRAINING: draining,
    }
    return counts | {Status.HEALTHY: counted["all"] - sum(counts.values())}


def watched_pairs(now: datetime) -> QuerySet[Pair]:
    """Pairs for `board`: with sums of their backlog queues, pauses, stalled syphons and the last heartbeat of a
    worker, in two queries.
    """
    here = Q(backlog_queues__is_gone=False)
    for_entities = EntityHealth.objects.filter(pair=OuterRef("pk"), waiting__gt=0).order_by().values("pair")
    return Pair.objects.annotate(
        queues=Count("backlog_queues", filter=here),
        waiting=Sum(F("backlog_queues__active") + F("backlog_queues__scheduled"), filter=here, default=0),
        dead=Sum("backlog_queues__dead_lettered", filter=here, default=0),
        for_entities=Subquery(for_entities.annotate(sum=Sum("waiting")).values("sum")),
        room=Sum(
            F("backlog_queues__max_size_bytes") - F("backlog_queues__size_bytes"),
            filter=here & Q(backlog_queues__max_size_bytes__gt=F("backlog_queues__size_bytes")),
        ),
        sampled_at=Max("backlog_queues__seen_at", filter=here),
        stalls=Exists(stalled(now).filter(pair=OuterRef("pk"))),
        ready_score=F("readiness__score"),
        ready_checked_at=F("readiness__checked_at"),
        ready_lowest=Subquery(Readiness.objects.filter(pair=OuterRef("pk")).order_by("score").values("score")[:1]),
        heard_at=Subquery(Heartbeat.objects.order_by("-seen_at").values("seen_at")[:1]),
    ).prefetch_related("pauses")


def _heard(pairs: Sequence[Pair]) -> datetime | None:
    """The time of the last heartbeat; taken from the pairs if they were read for a board."""
    found: datetime | None = vars(pairs[0])["heard_at"] if pairs and "heard_at" in vars(pairs[0]) else last_heartbeat()
    return found


def _totals(pair: Pair) -> Totals:
    sums = vars(pair)  # annotations of watched_pairs
    return Totals(sums["waiting"], sums["dead"], sums["queues"], sums["for_entities"] or 0, sums["sampled_at"])


def last_heartbeat() -> datetime | None:
    """The time of the last heartbeat of any worker."""
    last: datetime | None = Heartbeat.objects.aggregate(last=Max("seen_at"))["last"]
    return last


def _pair_board(
    pair: Pair,
    rows: Sequence[EntityRow],
    totals: Totals,
    depths: Samples,
    samples: Samples,
    window: Window,
    paces: Mapping[str, Pace],
    panel: object | None,
    outlook: Outlook,
) -> PairBoard:
    parts = {row.entity.path: samples.get(row.entity.pk, ()) for row in rows}
    return PairBoard(
        pair=pair,
        rows=rows,
        totals=totals,
        pauses=list(pair.pauses.all()),
        chart=pair_chart(pair, depths.get(pair.pk, ()), parts, window),
        demo=panel,
        paces=paces,
        outlook=outlook,
    )
