"""The content of the pages of pairs, read in a number of queries that does not depend on the size of the fleet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Exists, F, Max, OuterRef, Q, QuerySet, Subquery, Sum
from django.utils.safestring import SafeString

from dashboard.fleet.depth.charts import HOUR, Samples, depths_and_samples, last_hour, pair_chart, spark
from dashboard.fleet.depth.marks import lately
from dashboard.fleet.depth.outlook import Outlook, outlooks
from dashboard.fleet.depth.trend import Trend, is_paused, trend_of
from dashboard.fleet.state.event_lines import EventLine, plain_cause
from dashboard.fleet.state.ledgers import stalled
from dashboard.fleet.state.paces import paces_of
from dashboard.fleet.state.primaries import PrimaryDown, primaries_down
from dashboard.fleet.state.status import AWAY, Headline, Status, entity_status, headline, is_held, is_silent, verbs
from dashboard.fleet.state.status_counts import counts_by_pair, summed
from dashboard.models import EntityHealth, Heartbeat, Pair, Readiness, SyphonPause
from dashboard.models.syphon import WHOLE_PAIR
from dashboard.site.charts import Chart, Window
from pairing.fleet.shared_health import Pace

MOST_NAMED = 12
FOLDED_FROM = 9
"""As many healthy entities of a pair are one line that unfolds."""
CALM = (Status.HEALTHY, Status.UNKNOWN)
PanelOf = Callable[[Pair], object | None]
"""Additional content of a pair, for `demo/panel.html`; None if there is none."""


@dataclass(frozen=True, slots=True)
class EntityRow:
    """One line of the table of entities."""

    entity: EntityHealth
    status: Status
    spark: SafeString
    quiet_since: datetime | None = None
    """Since when nobody has sent to it, if its primary is down: its state is not known."""

    @property
    def verbs(self) -> tuple[str, ...]:
        return verbs(self.status)

    @property
    def cause(self) -> str:
        """What is wrong in a few words; empty if it is healthy, or an operator gave the reason."""
        is_wrong = (self.status in AWAY and self.entity.origin != "forced") or self.status is Status.FAILING
        return plain_cause(self.entity.reason) if is_wrong else ""

    @property
    def why(self) -> str:
        """The cause, or else the reason that is known, and who holds the failover."""
        reason, holder = self.cause or self.entity.reason, self.entity.held_by
        if self.status is not Status.HELD or not holder:
            return reason
        return f"held by {holder}: {reason}" if reason else f"held by {holder}"


@dataclass(frozen=True, slots=True)
class Trouble:
    """Entities with the same cause, those first that failed first."""

    cause: str
    rows: Sequence[EntityRow]

    @property
    def named(self) -> Sequence[EntityRow]:
        return self.rows[:MOST_NAMED]

    @property
    def others(self) -> int:
        """The number of those that are not named."""
        return len(self.rows) - len(self.named)

    @property
    def since(self) -> datetime | None:
        return self.rows[0].entity.since


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
    trend: Trend
    counts: Mapping[Status, int]
    """All its entities by status, also those that `rows` leaves out."""
    is_folded: bool

    @property
    def open_rows(self) -> Sequence[EntityRow]:
        """The rows that stand open: all of them, or those of entities that need a look."""
        return [row for row in self.rows if row.status not in CALM] if self.is_folded else self.rows

    @property
    def folded_rows(self) -> Sequence[EntityRow]:
        return [row for row in self.rows if row.status in CALM] if self.is_folded else ()

    @property
    def calm(self) -> str:
        """`36 healthy entities`: the words for the folded rows, which may be a part of them."""
        count, here = sum(self.counts.get(status, 0) for status in CALM), len(self.folded_rows)
        words = f"{count:,} entities in an unknown state" if self.is_unheard else f"{count:,} healthy entities"
        return words if here == count else f"{words}, {here:,} on this page"

    @property
    def is_unheard(self) -> bool:
        return bool(self.counts.get(Status.UNKNOWN))

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
    events: Sequence[EventLine]
    """The newest, of these pairs."""

    @property
    def moving(self) -> list[PairBoard]:
        """The pairs whose backlog grows or is being drained."""
        return [one for one in self.pairs if one.trend.full_in or one.trend.drained_in]

    @property
    def troubles(self) -> list[Trouble]:
        """The entities on this page that the headline is about, by cause."""
        bad = AWAY if self.headline.status in AWAY else (Status.FAILING,)
        rows = [row for one in self.pairs for row in one.rows if row.status in bad and row.entity.since]
        rows.sort(key=lambda row: row.entity.since or datetime.max)
        return [Trouble(why, [row for row in rows if row.why == why]) for why in dict.fromkeys(row.why for row in rows)]


def board(
    now: datetime,
    pairs: Iterable[Pair],
    entities: Iterable[EntityHealth],
    panel_of: PanelOf = lambda pair: None,
    *,
    may_fold: bool = False,
    is_of_one: bool = False,
) -> Board:
    """The pairs and the given entities. The headline covers all entities of these pairs.

    `may_fold`: many healthy entities may be one line. `is_of_one`: it is the page of one pair.
    """
    known, shown = list(pairs), list(entities)
    beat = vars(known[0])["heard_at"] if known else last_heartbeat()
    silent, by_key = is_silent(beat, now), {pair.pk: pair for pair in known}
    for entity in shown:  # avoids a join or a query per entity
        entity.pair = by_key[entity.pair_id]
    depths, samples = depths_and_samples(known, shown, now - HOUR)
    window = last_hour(now, depths)
    counts = counts_by_pair(known, now, silent)
    down = primaries_down(now, _troubled(known, counts))
    rows = entity_rows(shown, samples, window, silent, down)
    events, happened = lately(window.start, now, pair=known[0].name if is_of_one else "", limit=20 if is_of_one else 12)
    limited, ahead = paces_of(pair.name for pair in known), outlooks(known, now)
    boards = []
    for pair in known:
        own, depth = [row for row in rows if row.entity.pair_id == pair.pk], depths.get(pair.pk, ())
        parts = {row.entity.path: samples.get(row.entity.pk, ()) for row in own}
        one = PairBoard(
            pair=pair,
            rows=own,
            totals=_totals(pair),
            pauses=list(pair.pauses.all()),
            chart=pair_chart(pair, depth, parts, window, happened.get(pair.name, ())),
            demo=panel_of(pair),
            paces=limited.get(pair.name, {}),
            outlook=ahead[pair.pk],
            trend=trend_of(pair, depth, ahead[pair.pk], counts.get(pair.pk, {}), window.end),
            counts=counts.get(pair.pk, {}),
            is_folded=may_fold and sum(row.status in CALM for row in own) >= FOLDED_FROM,
        )
        boards.append(one)
    return Board(boards, _headline(known, summed(counts), down.values()), beat, silent, events)


def headline_of(pairs: Sequence[Pair], now: datetime, fleet_is_silent: bool) -> Headline:
    """The headline of `watched_pairs`, the same on pages and in the API."""
    counts = counts_by_pair(pairs, now, fleet_is_silent)
    return _headline(pairs, summed(counts), primaries_down(now, _troubled(pairs, counts)).values())


def _troubled(pairs: Iterable[Pair], counts: Mapping[int, Mapping[Status, int]]) -> list[Pair]:
    return [pair for pair in pairs if counts.get(pair.pk, {}).get(Status.FAILED_OVER)]


def _headline(pairs: Sequence[Pair], counts: Mapping[Status, int], down: Collection[PrimaryDown]) -> Headline:
    waiting = {pair: _totals(pair).messages for pair in pairs}
    is_held_back = any(count and is_paused(pair) for pair, count in waiting.items())
    found = headline(counts, sum(waiting.values()), is_paused=is_held_back)
    if not down:
        return found
    first, *others = down
    names = ", ".join(one.pair for one in (first, *others[:2])) + (f" and {len(down) - 3:,} more" if others[2:] else "")
    sentence = f"{len(down):,} primaries are down: {names}" if others else first.sentence
    return Headline(found.status, sentence, f"{found.detail}. {first.advice}")


def entity_rows(
    entities: Iterable[EntityHealth],
    samples: Samples,
    window: Window,
    fleet_is_silent: bool,
    down: Mapping[int, PrimaryDown],
) -> list[EntityRow]:
    """The entities with their status and sparkline, worst first."""
    rows = []
    for entity in entities:
        status, primary = status_of(entity, window.end, fleet_is_silent), down.get(entity.pair_id)
        quiet_since = primary.quiet if primary and status in CALM else None
        rows.append(EntityRow(entity, status, spark(entity, samples.get(entity.pk, ()), window), quiet_since))
    return sorted(rows, key=lambda row: (row.status.rank, row.entity.path))


def status_of(entity: EntityHealth, now: datetime, fleet_is_silent: bool) -> Status:
    """The line of one entity."""
    return entity_status(
        entity.state,
        is_held=is_held(entity.held_by, entity.expires, now),
        waiting=entity.waiting,
        fleet_is_silent=fleet_is_silent,
    )


def watched_pairs(now: datetime) -> QuerySet[Pair]:
    """Pairs for `board`: with sums of their queues, pauses, stalled syphons and the last heartbeat, in two queries."""
    here = Q(backlog_queues__is_gone=False)
    used = here & Q(backlog_queues__is_orphan=False)
    for_entities = EntityHealth.objects.filter(pair=OuterRef("pk"), waiting__gt=0).order_by().values("pair")
    return Pair.objects.annotate(
        queues=Count("backlog_queues", filter=used),
        waiting=Sum(F("backlog_queues__active") + F("backlog_queues__scheduled"), filter=here, default=0),
        dead=Sum("backlog_queues__dead_lettered", filter=here, default=0),
        for_entities=Subquery(for_entities.annotate(sum=Sum("waiting")).values("sum")),
        room=Sum(
            F("backlog_queues__max_size_bytes") - F("backlog_queues__size_bytes"),
            filter=used & Q(backlog_queues__max_size_bytes__gt=F("backlog_queues__size_bytes")),
        ),
        sampled_at=Max("backlog_queues__seen_at", filter=here),
        heard_at=Subquery(Heartbeat.objects.order_by("-seen_at").values("seen_at")[:1]),
        stalls=Exists(stalled(now).filter(pair=OuterRef("pk"))),
        ready_score=F("readiness__score"),
        ready_checked_at=F("readiness__checked_at"),
        ready_lowest=Subquery(Readiness.objects.filter(pair=OuterRef("pk")).order_by("score").values("score")[:1]),
    ).prefetch_related("pauses")


def _totals(pair: Pair) -> Totals:
    sums = vars(pair)  # annotations of watched_pairs
    return Totals(sums["waiting"], sums["dead"], sums["queues"], sums["for_entities"] or 0, sums["sampled_at"])


def last_heartbeat() -> datetime | None:
    """The time of the last heartbeat of any worker."""
    last: datetime | None = Heartbeat.objects.aggregate(last=Max("seen_at"))["last"]
    return last


@dataclass(frozen=True, slots=True)
class WorkerLiveness:
    """The content of `fleet/silence.html`."""

    heartbeat: datetime | None
    """The time of the last heartbeat of any worker."""
    is_silent: bool


def worker_liveness(now: datetime) -> WorkerLiveness:
    """The current state, in one query."""
    heard = last_heartbeat()
    return WorkerLiveness(heard, is_silent(heard, now))
