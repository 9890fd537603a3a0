"""Outages from failover events: episodes by state, how available each entity was, and the operations each episode took.

An entity is down from `failed_over` or `forced` until `recovered`. Repeats of a state begin nothing new; what was going
on when the month began is carried into it; what still goes on counts as downtime but not into the time to repair.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from pipeline.months import Month
from pipeline.schemas import SETTLEMENTS
from pipeline.tariffs import CROSSING_KINDS

EVENTS = "id string, time timestamp, pair string, entity string, kind string, reason string"
DOWN, UP = ("failed_over", "forced"), ("recovered",)
# What the library did only because of the episode; the syphon's send stands for the send to the primary.
EXTRA = ("send_backlog", "ping", "syphon_receive", "syphon_settle")
WAY_HOME = (*EXTRA, "syphon_send")


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One outage of one entity. `down_s`: its part inside the month; `units`: billable, by kind, to the next one.

    `crossing_bytes`: what went to the backlog and came out of it, and would cross regions if the pair does.
    """

    pair: str
    entity: str
    started: datetime
    ended: datetime | None
    cause: str
    reason: str
    down_s: float
    units: Mapping[str, int] = field(default_factory=dict)
    crossing_bytes: int = 0

    def extra(self, rule: str) -> int:
        """Operations that had not been without it."""
        kinds = [kind for kind in EXTRA if rule != "published" or kind not in SETTLEMENTS]
        return sum(self.units.get(kind, 0) for kind in kinds)


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


def read_events(spark: SparkSession, path: str) -> DataFrame:
    """The events of a file of JSON lines, each once."""
    return spark.read.schema(EVENTS).json(path).dropDuplicates(["id"])


def episodes_of(events: DataFrame, month: Month, now: datetime) -> DataFrame:
    """The outages that touch the month: `started`, `ended` (null while it lasts), `down_s` inside the month."""
    known = events.where(F.col("kind").isin(*DOWN, *UP) & (F.col("entity") != "*"))
    states = known.withColumn("down", F.col("kind").isin(*DOWN))
    in_time = Window.partitionBy("pair", "entity").orderBy("time", "id")
    changes = states.withColumn("was", F.coalesce(F.lag("down").over(in_time), F.lit(False))).where("down <> was")
    spans = changes.withColumn("ended", F.lead("time").over(in_time)).where("down")
    start, end = F.lit(month.start), F.lit(min(month.end, now))
    clipped = F.unix_micros(F.least(F.coalesce("ended", end), end)) - F.unix_micros(F.greatest("time", start))
    touching = spans.where((F.col("time") < end) & (F.col("ended").isNull() | (F.col("ended") > start)))
    names = {"time": "started", "kind": "cause"}
    found = touching.withColumn("down_s", clipped / 1_000_000).withColumnsRenamed(names)
    return found.select("pair", "entity", "started", "ended", "cause", "reason", "down_s")


def units_of(episodes: DataFrame, minutes: DataFrame) -> DataFrame:
    """Billable units by episode and kind: from the episode's first minute to the entity's next episode."""
    begins = episodes.select(
        "pair", "entity", F.date_trunc("minute", "started").alias("at"), "started", F.lit(0).alias("order"),
        F.lit(None).cast("string").alias("kind"), F.lit(0).cast("long").alias("billing_units"),
        F.lit(0).cast("long").alias("bytes"),
    )  # fmt: skip
    used = minutes.where(F.col("kind").isin(*WAY_HOME)).select(
        "pair", "entity", F.col("minute").alias("at"), F.lit(None).cast("timestamp").alias("started"),
        F.lit(1).alias("order"), "kind", "billing_units", "bytes",
    )  # fmt: skip
    before = Window.partitionBy("pair", "entity").orderBy("at", "order", "started")
    placed = begins.unionByName(used).withColumn("of", F.last("started", ignorenulls=True).over(before))
    wanted = placed.where("order = 1 and of is not null")
    return wanted.groupBy("pair", "entity", F.col("of").alias("started"), "kind").agg(
        F.sum("billing_units").alias("units"), F.sum("bytes").alias("bytes")
    )


def collect(episodes: DataFrame, units: DataFrame) -> list[Episode]:
    """The episodes with their units, by time."""
    by_episode: dict[tuple[str, str, int], dict[str, int]] = defaultdict(dict)
    sizes: dict[tuple[str, str, int], int] = defaultdict(int)
    for row in units.select("pair", "entity", F.unix_micros("started").alias("at"), "kind", "units", "bytes").collect():
        key = (row["pair"], row["entity"], row["at"])
        by_episode[key][row["kind"]] = row["units"]
        sizes[key] += row["bytes"] if row["kind"] in CROSSING_KINDS else 0
    columns = (F.unix_micros("started").alias("from"), F.unix_micros("ended").alias("to"))
    rows = episodes.select("pair", "entity", "cause", "reason", "down_s", *columns).collect()
    return [
        Episode(
            pair=row["pair"],
            entity=row["entity"],
            started=_moment(row["from"]),
            ended=None if row["to"] is None else _moment(row["to"]),
            cause=row["cause"],
            reason=row["reason"] or "",
            down_s=row["down_s"],
            units=by_episode[row["pair"], row["entity"], row["from"]],
            crossing_bytes=sizes[row["pair"], row["entity"], row["from"]],
        )
        for row in sorted(rows, key=lambda row: (row["from"], row["pair"], row["entity"]))
    ]


def availability(
    episodes: Sequence[Episode], inventory: Sequence[tuple[str, str]], month: Month, now: datetime
) -> list[Availability]:
    """One record for each entity, those without an outage included."""
    end = min(month.end, now)
    period = max(0.0, (end - month.start).total_seconds())
    by_entity: dict[tuple[str, str], list[Episode]] = {entity: [] for entity in sorted(set(inventory))}
    for episode in episodes:
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
