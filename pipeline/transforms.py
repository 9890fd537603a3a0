"""From raw usage rows to billable units sorted into price tiers, on Spark; every step pure, frame in and frame out.

The cheap path does the bulk: rows are summed by hour, and an hour that lies inside one tier needs no more detail.
Only the few hours in which a tier begins are looked at minute by minute. All arithmetic is on whole units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from pipeline.schemas import SETTLEMENTS, USAGE

KEY = ("scope", "pair", "namespace", "entity", "kind")
SUMS = ("operations", "messages", "bytes", "billing_units", "rows")
ORDER_IN_MINUTE = ("minute", "namespace", "entity", "kind", "pair")
FEW = 1_000_000  # suspects that every task can hold in memory


@dataclass(frozen=True, slots=True)
class Copies:
    """Where record_ids repeat: the hashes concerned, and for each such record the row that counts."""

    hashes: DataFrame
    winners: DataFrame
    count: int

    @property
    def few(self) -> bool:
        """Whether every task can hold the hashes in memory."""
        return self.count <= FEW


def hashed(rows: DataFrame) -> DataFrame:
    """The rows with `h`, a hash of record_id: eight bytes travel through the shuffle instead of the whole text."""
    return rows.withColumn("h", F.xxhash64("record_id"))


def find_copies(rows: DataFrame) -> Copies:
    """The record_ids that occur more than once (or share a hash), resolved: of one record_id the highest seq counts.

    Two rows with the same record_id and seq but different contents: the greater row in column order, so reruns agree.
    """
    hashes = rows.groupBy("h").agg(F.count(F.lit(1)).alias("n")).where("n > 1").select("h").persist()
    count = hashes.count()
    others = [name for name in (*USAGE, "date") if name not in ("record_id", "seq")]
    winners = (
        rows.join(_small(hashes, count <= FEW), "h", "left_semi")
        .groupBy("record_id")
        .agg(F.max(F.struct("seq", *others)).alias("row"))
        .select("record_id", "row.*")
        .persist()
    )
    return Copies(hashes, winners, count)


def without_copies(rows: DataFrame, copies: Copies) -> DataFrame:
    """Each reported fact once."""
    columns = [*USAGE, "date"]
    if copies.count == 0:
        return rows.select(*columns)
    unique = rows.join(_small(copies.hashes, copies.few), "h", "left_anti").select(*columns)
    return unique.unionByName(copies.winners.select(*columns))


def _small(frame: DataFrame, few: bool) -> DataFrame:
    return F.broadcast(frame) if few else frame


def hourly(rows: DataFrame) -> DataFrame:
    """The rows summed by hour; `rows` counts them, `date` stays the partition's."""
    return _summed(rows.withColumn("hour", F.date_trunc("hour", "minute")).withColumn("rows", F.lit(1)), "date", "hour")


def _summed(rows: DataFrame, *further: str) -> DataFrame:
    return rows.groupBy(*KEY, *further).agg(*(F.sum(name).alias(name) for name in SUMS))


def by_rule(rows: DataFrame) -> DataFrame:
    """Each row once per counting rule, `units` being what that rule bills."""
    rules = rows.withColumn("rule", F.explode(F.array(F.lit("published"), F.lit("settlements"))))
    unbilled = (F.col("rule") == "published") & F.col("kind").isin(*SETTLEMENTS)
    return rules.withColumn("units", F.when(unbilled, F.lit(0)).otherwise(F.col("billing_units")))


def hours_on_the_ladder(hours: DataFrame, starts: Sequence[int]) -> DataFrame:
    """Per rule, scope and hour: the units used `before` it in the month, and its `lowest` and `highest` tier."""
    used = hours.groupBy("rule", "scope", "hour").agg(F.sum("units").alias("used")).where("used > 0")
    earlier = Window.partitionBy("rule", "scope").orderBy("hour").rowsBetween(Window.unboundedPreceding, -1)
    placed = used.withColumn("before", F.coalesce(F.sum("used").over(earlier), F.lit(0)))
    return placed.select(
        "rule",
        "scope",
        "hour",
        "before",
        _tier_at(F.col("before"), starts).alias("lowest"),
        _tier_at(F.col("before") + F.col("used") - 1, starts).alias("highest"),
    )


def _tier_at(unit: Column, starts: Sequence[int]) -> Column:
    """The tier in which the unit with this number (from 0) lies."""
    return reduce(add, ((unit >= F.lit(start)).cast("int") for start in starts)) - 1


def in_one_tier(hours: DataFrame, ladder: DataFrame, starts: Sequence[int]) -> DataFrame:
    """The hours that lie inside one tier, their units put there as t0, t1, …"""
    joined = hours.join(F.broadcast(ladder), ["rule", "scope", "hour"], "left").where(
        "lowest is null or lowest = highest"
    )
    tiers = (F.when(F.col("lowest") == n, F.col("units")).otherwise(0).alias(f"t{n}") for n in range(len(starts)))
    return joined.select("rule", *KEY, "date", *SUMS, "units", *tiers)


def across_tiers(rows: DataFrame, ladder: DataFrame, starts: Sequence[int]) -> DataFrame:
    """The hours in which a tier begins, taken minute by minute; within a minute by namespace, entity and kind."""
    hours = F.broadcast(ladder.where("lowest < highest").select("rule", "scope", "hour", "before"))
    detail = rows.withColumn("hour", F.date_trunc("hour", "minute")).withColumn("rows", F.lit(1))
    wanted = detail.join(F.broadcast(hours.select("scope", "hour").distinct()), ["scope", "hour"], "left_semi")
    minutes = by_rule(_summed(wanted, "date", "hour", "minute")).join(hours, ["rule", "scope", "hour"])
    so_far = (
        Window.partitionBy("rule", "scope", "hour").orderBy(*ORDER_IN_MINUTE).rowsBetween(Window.unboundedPreceding, 0)
    )
    placed = minutes.withColumn("top", F.col("before") + F.sum("units").over(so_far))
    ends = (*starts[1:], None)
    tiers = (_overlap(start, end).alias(f"t{n}") for n, (start, end) in enumerate(zip(starts, ends, strict=True)))
    return placed.select("rule", *KEY, "date", *SUMS, "units", *tiers)


def beside_the_ladder(rows: DataFrame, tiers: int, basic: Sequence[str]) -> DataFrame:
    """Rows of Basic and Premium namespaces: their units in two places behind the ladder's tiers, by their tier."""
    is_basic = F.col("namespace").isin(*basic)
    places = (
        *(F.lit(0).cast("long").alias(f"t{n}") for n in range(tiers)),
        F.when(is_basic, F.col("units")).otherwise(0).alias(f"t{tiers}"),
        F.when(is_basic, F.lit(0)).otherwise(F.col("units")).alias(f"t{tiers + 1}"),
    )
    return rows.select("rule", *KEY, "date", *SUMS, "units", *places)


def with_places_beside(rows: DataFrame, tiers: int) -> DataFrame:
    """Rows on the ladder with the same two places, empty."""
    return rows.withColumns({f"t{tiers + n}": F.lit(0).cast("long") for n in (0, 1)})


def _overlap(start: int, end: int | None) -> Column:
    """How many units of a row that ends at `top` lie in the tier."""
    highest = F.col("top") if end is None else F.least(F.col("top"), F.lit(end))
    lowest = F.greatest(F.col("top") - F.col("units"), F.lit(start))
    return F.greatest(F.lit(0), highest - lowest)


def totals(placed: DataFrame, tiers: int) -> DataFrame:
    """The placed rows summed twice in one pass: by namespace, entity and kind (`date` is null), by date and kind."""
    names = (*SUMS, "units", *(f"t{n}" for n in range(tiers)))
    sums = (F.min("pair").alias("pair"), *(F.sum(name).alias(name) for name in names))
    by_key, by_day = ("rule", "scope", "namespace", "entity", "kind"), ("rule", "scope", "date", "kind")
    return placed.groupingSets([by_key, by_day], *by_key, "date").agg(*sums)


def connection_hours(peaks: DataFrame) -> DataFrame:
    """Per scope and namespace the sum of the hourly peaks; an hour reported twice counts with its higher peak."""
    hours = peaks.groupBy("scope", "namespace", F.date_trunc("hour", "hour").alias("hour")).agg(
        F.max("peak").alias("peak")
    )
    return hours.groupBy("scope", "namespace").agg(F.sum("peak").alias("connection_hours"))
