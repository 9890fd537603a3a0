"""From raw usage rows to sums by hour and by minute, each fact once, on Spark; every step is pure, from frame to frame.

`pipeline.places` sorts them into price tiers. All arithmetic uses whole units.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline.held import FEW_ROWS, hold, nothing, together
from pipeline.plans import for_few_rows
from pipeline.schemas import RULES, SETTLEMENTS, USAGE, ddl
from pipeline.strays import is_stray

KEY = ("scope", "pair", "namespace", "entity", "kind")
SUMS = ("operations", "messages", "bytes", "billing_units", "rows")
OF_AN_HOUR = (*SUMS, "strays")
HOUR = 3_600_000_000  # microseconds
SOME = 50_000
FEW = 1_000_000  # suspects that every task can hold in memory
PORTION = 2_000_000  # hashes that are counted at once
MOST_PORTIONS = 5_000  # each writer of a shuffle writes a block for each of its readers


NO_ID = 0
"""The hash of rows without an id."""
ANYWHERE, WITHIN_A_DAY = ("record_id",), ("record_id", "date")
"""What makes two rows versions of one record: their id, wherever they are, or only beside each other."""


@dataclass(frozen=True, slots=True)
class Copies:
    """Where record_ids repeat: the hashes concerned, the good rows that have one of them (the `suspects`), and of these
    those that count, the `winners`. `counted`: the rows with such a hash that are among rows which were not asked
    whether they have an id.
    """

    hashes: DataFrame
    counted: DataFrame
    suspects: DataFrame
    winners: DataFrame
    count: int

    @property
    def few(self) -> bool:
        """Whether every task can hold the hashes in memory."""
        return self.count <= FEW


def hashed(rows: DataFrame, identity: Sequence[str] = ANYWHERE) -> DataFrame:
    """The rows with `h`, a hash of the identity, so that eight bytes instead of the whole text are shuffled."""
    return rows.withColumn("h", F.when(F.col("record_id").isNull(), NO_ID).otherwise(F.xxhash64(*identity)))


def find_copies(
    rows: DataFrame,
    expected: int = 0,
    identity: Sequence[str] = ANYWHERE,
    good: Column | None = None,
    good_but_for_its_id: Column | None = None,
) -> Copies:
    """The identities that occur more than once (or share a hash, or are missing), resolved: of one record the highest
    seq counts.

    Two rows with the same record_id and seq but different contents: the greater row in column order, so reruns agree.
    `expected`: about how many rows there are; they are counted in portions that fit in memory. `good`: which of them
    count, if not all do, and which would, if they had an id; those that share a hash are held before: Spark would ask
    all of them first.
    """
    placed = rows.select("h")
    if expected > FEW_ROWS:
        # Nearly all hashes are unique: to add them up before the shuffle, as a bare groupBy would, is work for nothing.
        least = int(rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
        placed = placed.repartition(max(least, min(expected // PORTION, MOST_PORTIONS)), "h")
    hashes = hold(placed.groupBy("h").agg(F.count(F.lit(1)).alias("n")).where(f"n > 1 or h = {NO_ID}").select("h"))
    count = hashes.count()
    if not count:
        return no_copies(rows.sparkSession)
    met = hold(rows.join(_small(hashes, count <= FEW), "h", "left_semi").select(*USAGE, "date"))
    number = met.count() if expected > FEW_ROWS else 0  # held by that, by as many tasks as there are files for
    met = together(met, number) if number else met
    suspects = met if good is None else met.where(good)
    counted = suspects if good_but_for_its_id is None else met.where(good_but_for_its_id)
    with for_few_rows(rows.sparkSession) if 0 < number <= FEW_ROWS else nullcontext():
        return Copies(hashes, counted, suspects, hold(winners(suspects, identity)), count)


def no_copies(spark: SparkSession) -> Copies:
    """Of rows whose ids are all different."""
    none = nothing(spark, ddl(USAGE))
    return Copies(nothing(spark, "h long"), none, none, none, 0)


def winners(rows: DataFrame, identity: Sequence[str]) -> DataFrame:
    """The row of each record that counts."""
    others = [name for name in (*USAGE, "date") if name not in ("record_id", "seq")]
    best = rows.groupBy(*identity).agg(F.max(F.struct("seq", *others)).alias("row"))
    return best.select("record_id", "row.*").select(*USAGE, "date")


def without_copies(rows: DataFrame, copies: Copies) -> DataFrame:
    """Each reported fact once."""
    columns = [*USAGE, "date"]
    if copies.count == 0:
        return rows.select(*columns)
    unique = rows.join(_small(copies.hashes, copies.few), "h", "left_anti").select(*columns)
    return unique.unionByName(copies.winners)


def hourly_without_copies(rows: DataFrame, copies: Copies, identity: Sequence[str] = ANYWHERE) -> DataFrame:
    """What `hourly(without_copies(rows, copies))` is, without a join of all rows: the few suspects are taken off the
    sums of all, and those of them that count are added again. Whole numbers, so nothing is lost by it.
    """
    everything = hourly(rows, identity)
    return everything if copies.count == 0 else corrected(everything, copies.counted, copies.winners, identity)


def corrected(hours: DataFrame, less: DataFrame, more: DataFrame, identity: Sequence[str] = ANYWHERE) -> DataFrame:
    """The hours without the rows of `less` and with those of `more`."""
    off = hourly(less, identity).select(*KEY, "date", "hour", *((-F.col(name)).alias(name) for name in OF_AN_HOUR))
    both = hours.unionByName(off).unionByName(hourly(more, identity))
    return _summed(both, "date", "hour", sums=OF_AN_HOUR).where("rows <> 0")


def facts_of_hours(rows: DataFrame, copies: Copies) -> DataFrame:
    """Rows that come to the same sums as `hourly_without_copies`, not summed: where sums by hour are nearly as many
    as the rows, to make them takes longer than to go through the rows once more.
    """
    everything = _as_hours(rows)
    if copies.count == 0:
        return everything
    off = _as_hours(copies.counted).withColumns({name: -F.col(name) for name in SUMS})
    return everything.unionByName(off).unionByName(_as_hours(copies.winners))


def _as_hours(rows: DataFrame) -> DataFrame:
    return with_hour(rows).withColumn("rows", F.lit(1)).select(*KEY, "date", "hour", *SUMS)


def expected_hours(rows: DataFrame, number: int) -> int:
    """About how many sums by hour these rows come to, as far as SOME of them show, which need not be checked."""
    by_hour = with_hour(rows.limit(SOME)).groupBy(*KEY, "hour").agg(F.count(F.lit(1)).alias("n"))
    found, groups = by_hour.agg(F.sum("n"), F.count(F.lit(1))).collect()[0]
    return int(groups * number // (found or 1))


def _small(frame: DataFrame, few: bool) -> DataFrame:
    return F.broadcast(frame) if few else frame


def hourly(rows: DataFrame, identity: Sequence[str] = ANYWHERE) -> DataFrame:
    """The rows summed by hour; `rows` counts them, `date` stays the partition's.

    `strays` counts those whose id does not name their day, where copies are looked for within a day; elsewhere nobody
    asks, and it takes time for each row.
    """
    strays = is_stray().cast("int") if identity == WITHIN_A_DAY else F.lit(0)
    return _summed(with_hour(rows).withColumns({"rows": F.lit(1), "strays": strays}), "date", "hour", sums=OF_AN_HOUR)


def by_minute(rows: DataFrame) -> DataFrame:
    """The rows summed by minute, with the hour that it is in."""
    return _summed(with_hour(rows).withColumn("rows", F.lit(1)), "date", "hour", "minute")


def with_hour(rows: DataFrame) -> DataFrame:
    """The rows with the hour their minute is in. Of minutes before 1970, which no good row has, it is another one."""
    whole_hours = F.expr(f"unix_micros(minute) div {HOUR} * {HOUR}")  # date_trunc asks for the time zone of each row
    return rows.withColumn("hour", F.timestamp_micros(whole_hours))


def _summed(rows: DataFrame, *further: str, sums: Sequence[str] = SUMS) -> DataFrame:
    return rows.groupBy(*KEY, *further).agg(*(F.sum(name).alias(name) for name in sums))


def billed(rule: str) -> Column:
    """The units of a row that the rule bills: the documents' operations have no settlements among them."""
    if rule != "published":
        return F.col("billing_units")
    return F.when(F.col("kind").isin(*SETTLEMENTS), F.lit(0)).otherwise(F.col("billing_units"))


def in_brief(hours: DataFrame) -> DataFrame:
    """The hours summed twice in one pass, with the units of each rule: over the day (`hour` is null), and by namespace
    and hour (`pair`, `entity` and `kind` are null).
    """
    names = (*SUMS, *RULES)
    units = hours.withColumns({rule: billed(rule) for rule in RULES})
    days, paces = (*KEY, "date"), ("scope", "namespace", "date", "hour")
    return units.groupingSets([days, paces], *KEY, "date", "hour").agg(*(F.sum(name).alias(name) for name in names))


def paces(hours: DataFrame, *, by_namespace: bool = True) -> DataFrame:
    """The units of each rule by scope, hour and perhaps namespace, and the number of `rows`."""
    key = ("scope", *(["namespace"] if by_namespace else []), "date", "hour")
    units = hours.select(*key, "rows", *(billed(rule).alias(rule) for rule in RULES))
    return units.groupBy(*key).agg(*(F.sum(name).alias(name) for name in (*RULES, "rows")))


def connection_days(peaks: DataFrame) -> DataFrame:
    """Per scope, namespace and `date` the peaks of its hours, as `hours` of (hour of the day, peak).

    An hour's peak is the whole namespace's where a row tells it, else the sum of its processes' own peaks, which need
    not have been at the same time: an upper bound. Of an hour that was reported twice the higher peak counts.
    """
    hour = ("scope", "namespace", "date", F.hour("hour").alias("hour"))
    by_process = peaks.groupBy(*hour, "reporter").agg(F.max("peak").alias("peak"))
    whole = F.max(F.when(F.col("reporter").isNull(), F.col("peak")))
    summed = F.sum(F.when(F.col("reporter").isNotNull(), F.col("peak")))
    hours = by_process.groupBy("scope", "namespace", "date", "hour").agg(F.coalesce(whole, summed).alias("peak"))
    return hours.groupBy("scope", "namespace", "date").agg(F.collect_list(F.struct("hour", "peak")).alias("hours"))
