"""Outages: their part of the month, how available each entity was, and the operations each outage took.

Which outages there were is read from a file: the control plane has folded them from failover events. What was going on
when the month began is carried into it; what still goes on counts as downtime but not into the time to repair.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from pipeline.months import Month
from pipeline.schemas import SETTLEMENTS
from pipeline.tariffs import CROSSING_KINDS

OUTAGES = "pair string, entity string, started timestamp, ended timestamp, cause string, reason string"
# What the library did only because of the episode; the syphon's send stands for the send to the primary.
POLL = "syphon_receive_empty"
OF_AN_ENTITY = ("send_backlog", "ping", "syphon_receive", "syphon_settle")
EXTRA = (*OF_AN_ENTITY, POLL)
WAY_HOME = (*OF_AN_ENTITY, "syphon_send")
PLACE = ("scope", "namespace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What an outage took of one namespace, on the bill of its scope. `units`: billable, by kind.

    `crossing_bytes`: what went to the backlog and came out of it, and would cross regions if the pair does.
    """

    scope: str
    namespace: str
    units: Mapping[str, int]
    crossing_bytes: int = 0

    def added(self, rule: str) -> int:
        """Operations that had not been without the outage."""
        kinds = [kind for kind in EXTRA if rule != "published" or kind not in SETTLEMENTS]
        return sum(self.units.get(kind, 0) for kind in kinds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One outage of one entity. `down_s`: its part inside the month; `places`: what it took in it, to the next one."""

    pair: str
    entity: str
    started: datetime
    ended: datetime | None
    cause: str
    reason: str
    down_s: float
    places: tuple[Place, ...] = ()

    @property
    def units(self) -> dict[str, int]:
        """Billable units by kind, of all bills."""
        sums: Counter[str] = Counter()
        for place in self.places:
            sums.update(place.units)
        return dict(sums)

    @property
    def crossing_bytes(self) -> int:
        return sum(place.crossing_bytes for place in self.places)

    def touches(self, month: Month) -> bool:
        """Whether it was not over when the month began."""
        return self.ended is None or self.ended > month.start

    def extra(self, rule: str) -> int:
        """Operations that had not been without it."""
        return sum(place.added(rule) for place in self.places)


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """How long an entity of the primary was down in the period, and how long a repair took on average."""

    pair: str
    entity: str
    episodes: int
    down_s: float
    period_s: float
    repair_s: float | None

    @property
    def share(self) -> float:
        return 1 - self.down_s / self.period_s if self.period_s else 1.0


def read_outages(spark: SparkSession, path: str) -> DataFrame:
    """The outages of a file of JSON lines: `started`, `ended` (null while it lasts), `cause` and `reason` of each."""
    return spark.read.schema(OUTAGES).json(path)


def episodes_of(outages: DataFrame, month: Month, now: datetime) -> DataFrame:
    """The outages that touch the month: `started`, `ended` (null while it lasts), `down_s` inside the month.

    With them of each entity the last one before it, whose backlog may come home in the month; its `down_s` is 0.
    """
    start, end = F.lit(month.start), F.lit(min(month.end, now))
    clipped = F.unix_micros(F.least(F.coalesce("ended", end), end)) - F.unix_micros(F.greatest("started", start))
    is_earlier = _is_earlier(month)
    last = F.max(F.when(is_earlier, F.col("started"))).over(Window.partitionBy("pair", "entity"))
    is_wanted = (F.col("started") < end) & (~is_earlier | (F.col("started") == F.col("last")))
    wanted = outages.withColumn("last", last).where(is_wanted)
    found = wanted.withColumn("down_s", F.greatest(F.lit(0), clipped) / 1_000_000)
    return found.select("pair", "entity", "started", "ended", "cause", "reason", "down_s")


def _is_earlier(month: Month) -> Column:
    """Whether an outage was over when the month began."""
    return F.coalesce(F.col("ended") <= F.lit(month.start), F.lit(False))


def days_of(episodes: DataFrame, usage: DataFrame, month: Month) -> list[str]:
    """The days from the month's first outage on, and those on which the backlog of an earlier one may have come home.

    `usage`: the month's, by day or finer.
    """
    starts = (F.min(F.when(which, F.col("started"))) for which in (~_is_earlier(month), _is_earlier(month)))
    first, earlier = episodes.agg(*(F.date_format(start, "yyyy-MM-dd") for start in starts)).collect()[0]
    days = {day.isoformat() for day in month.dates if first and day.isoformat() >= first}
    if earlier:
        on_the_way = usage.where(F.col("kind").isin(*WAY_HOME))
        days |= {row["date"] for row in on_the_way.select("date").distinct().collect()}
    return sorted(days)


def units_of(episodes: DataFrame, minutes: DataFrame) -> DataFrame:
    """Billable units by episode, place and kind: from the episode's first minute to the entity's next episode."""
    nowhere = [F.lit(None).cast("string").alias(name) for name in PLACE]
    begins = episodes.select(
        "pair", "entity", F.date_trunc("minute", "started").alias("at"), "started", F.lit(0).alias("order"),
        F.lit(None).cast("string").alias("kind"), F.lit(0).cast("long").alias("billing_units"),
        F.lit(0).cast("long").alias("bytes"), *nowhere,
    )  # fmt: skip
    used = minutes.where(F.col("kind").isin(*WAY_HOME)).select(
        "pair", "entity", F.col("minute").alias("at"), F.lit(None).cast("timestamp").alias("started"),
        F.lit(1).alias("order"), "kind", "billing_units", "bytes", *PLACE,
    )  # fmt: skip
    before = Window.partitionBy("pair", "entity").orderBy("at", "order", "started")
    placed = begins.unionByName(used).withColumn("of", F.last("started", ignorenulls=True).over(before))
    wanted = placed.where("order = 1 and of is not null")
    return wanted.groupBy("pair", "entity", F.col("of").alias("started"), *PLACE, "kind").agg(
        F.sum("billing_units").alias("units"), F.sum("bytes").alias("bytes")
    )


def polls_of(episodes: DataFrame, minutes: DataFrame) -> DataFrame:
    """Units of the polls that found nothing while an entity of the pair was down, each on one episode.

    A poll is of a backlog queue, not of an entity: it counts for whichever episode of the pair had begun first.
    """
    begins = F.date_trunc("minute", "started").alias("begins")
    open_ones = episodes.select(F.col("pair").alias("of"), "entity", "started", "ended", begins)
    polls = minutes.where(F.col("kind") == POLL).groupBy("pair", *PLACE, F.col("minute").alias("at"))
    while_down = (
        (F.col("of") == F.col("pair"))
        & (F.col("at") >= F.col("begins"))
        & (F.col("ended").isNull() | (F.col("at") < F.col("ended")))
    )
    met = polls.agg(F.sum("billing_units").alias("units")).join(F.broadcast(open_ones), while_down)
    begun_first, units = F.min(F.struct("started", "entity")).alias("one"), F.max("units").alias("u")
    first = met.groupBy("pair", *PLACE, "at").agg(begun_first, units)
    return first.groupBy("pair", "one.entity", "one.started", *PLACE, F.lit(POLL).alias("kind")).agg(
        F.sum("u").alias("units"), F.lit(0).cast("long").alias("bytes")
    )


def collect(episodes: DataFrame, units: DataFrame, month: Month) -> list[Episode]:
    """The episodes with their units, by time; of those before the month the ones that took something in it."""
    places = _places(units)
    columns = (F.unix_micros("started").alias("from"), F.unix_micros("ended").alias("to"))
    rows = episodes.select("pair", "entity", "cause", "reason", "down_s", *columns).collect()
    known = (
        Episode(
            pair=row["pair"],
            entity=row["entity"],
            started=_moment(row["from"]),
            ended=None if row["to"] is None else _moment(row["to"]),
            cause=row["cause"],
            reason=row["reason"] or "",
            down_s=row["down_s"],
            places=places.get((row["pair"], row["entity"], row["from"]), ()),
        )
        for row in sorted(rows, key=lambda row: (row["from"], row["pair"], row["entity"]))
    )
    return [each for each in known if each.places or each.touches(month)]


def _places(units: DataFrame) -> dict[tuple[str, str, int], tuple[Place, ...]]:
    """What each episode (pair, entity, start in microseconds) took of each namespace."""
    found: dict[tuple[str, str, int], dict[tuple[str, str], list[Row]]] = defaultdict(lambda: defaultdict(list))
    columns = ("pair", "entity", F.unix_micros("started").alias("at"), *PLACE, "kind", "units", "bytes")
    for row in units.select(*columns).collect():
        found[row["pair"], row["entity"], row["at"]][row["scope"], row["namespace"]].append(row)
    return {
        episode: tuple(_place(*place, rows) for place, rows in sorted(by_place.items()))
        for episode, by_place in found.items()
    }


def _place(scope: str, namespace: str, rows: Sequence[Row]) -> Place:
    return Place(
        scope=scope,
        namespace=namespace,
        units={row["kind"]: row["units"] for row in rows},
        crossing_bytes=sum(row["bytes"] for row in rows if row["kind"] in CROSSING_KINDS),
    )


def availability(
    episodes: Sequence[Episode], inventory: Sequence[tuple[str, str]], month: Month, now: datetime
) -> list[Availability]:
    """One record for each entity, those without an outage included."""
    end = min(month.end, now)
    period = max(0.0, (end - month.start).total_seconds())
    by_entity: dict[tuple[str, str], list[Episode]] = {entity: [] for entity in sorted(set(inventory))}
    for episode in episodes:
        if episode.touches(month):
            by_entity.setdefault((episode.pair, episode.entity), []).append(episode)
    return [
        Availability(
            pair=pair,
            entity=entity,
            episodes=len(found),
            down_s=sum(episode.down_s for episode in found),
            period_s=period,
            repair_s=_mean([(each.ended - each.started).total_seconds() for each in found if each.ended is not None]),
        )
        for (pair, entity), found in by_entity.items()
    ]


def _mean(seconds: Sequence[float]) -> float | None:
    return sum(seconds) / len(seconds) if seconds else None


def _moment(micros: int) -> datetime:
    return datetime.fromtimestamp(micros / 1_000_000, UTC)
