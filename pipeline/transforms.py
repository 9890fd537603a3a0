"""From raw usage rows to billable units sorted into price tiers, on Spark; every step is pure, from frame to frame.

Most of the work is cheap: rows are summed by hour, and an hour inside one tier needs no more detail. Only the few hours
in which a tier begins are processed by minute, and of these only the minute in which it begins is processed row by row.
All arithmetic uses whole units.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from pipeline.schemas import RULES, SETTLEMENTS, USAGE
from pipeline.strays import is_stray

KEY = ("scope", "pair", "namespace", "entity", "kind")
SUMS = ("operations", "messages", "bytes", "billing_units", "rows")
OF_AN_HOUR = (*SUMS, "strays")
ORDER_IN_MINUTE = ("namespace", "entity", "kind", "pair")
REPLACEMENT = "\ufffd"
"""For zero bytes, which databases reject."""
SPLIT = -1  # the tier of an hour in which one begins
FEW = 1_000_000  # suspects that every task can hold in memory
PORTION = 2_000_000  # hashes that are counted at once
MOST_PORTIONS = 5_000  # each writer of a shuffle writes a block for each of its readers


ANYWHERE, WITHIN_A_DAY = ("record_id",), ("record_id", "date")
"""What makes two rows versions of one record: their id, wherever they are, or only beside each other."""


@dataclass(frozen=True, slots=True)
class Copies:
    """Where record_ids repeat: the hashes concerned, all `suspects` (rows with such a hash), and of them those that
    count, the `winners`.
    """

    hashes: DataFrame
    suspects: DataFrame
    winners: DataFrame
    count: int

    @property
    def few(self) -> bool:
        """Whether every task can hold the hashes in memory."""
        return self.count <= FEW


def hashed(rows: DataFrame, identity: Sequence[str] = ANYWHERE) -> DataFrame:
    """The rows with `h`, a hash of the identity, so that eight bytes instead of the whole text are shuffled."""
    return rows.withColumn("h", F.xxhash64(*identity))


def find_copies(rows: DataFrame, expected: int = 0, identity: Sequence[str] = ANYWHERE) -> Copies:
    """The identities that occur more than once (or share a hash), resolved: of one record the highest seq counts.

    Two rows with the same record_id and seq but different contents: the greater row in column order, so reruns agree.
    `expected`: about how many rows there are; they are counted in portions that fit in memory.
    """
    # Nearly all hashes are unique: to add them up before the shuffle, as a bare groupBy would, is work for nothing.
    least = int(rows.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
    portions = max(least, min(expected // PORTION, MOST_PORTIONS))
    placed = rows.select("h").repartition(portions, "h")
    hashes = placed.groupBy("h").agg(F.count(F.lit(1)).alias("n")).where("n > 1").select("h").persist()
    count = hashes.count()
    suspects = rows.join(_small(hashes, count <= FEW), "h", "left_semi").select(*USAGE, "date")
    suspects = suspects.persist() if count else suspects.limit(0)
    return Copies(hashes, suspects, winners(suspects, identity).persist(), count)


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
    return everything if copies.count == 0 else corrected(everything, copies.suspects, copies.winners, identity)


def corrected(hours: DataFrame, less: DataFrame, more: DataFrame, identity: Sequence[str] = ANYWHERE) -> DataFrame:
    """The hours without the rows of `less` and with those of `more`."""
    off = hourly(less, identity).select(*KEY, "date", "hour", *((-F.col(name)).alias(name) for name in OF_AN_HOUR))
    both = hours.unionByName(off).unionByName(hourly(more, identity))
    return _summed(both, "date", "hour", sums=OF_AN_HOUR).where("rows <> 0")


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
    """The rows with the hour their minute is in."""
    return rows.withColumn("hour", F.date_trunc("hour", "minute"))


def _summed(rows: DataFrame, *further: str, sums: Sequence[str] = SUMS) -> DataFrame:
    return rows.groupBy(*KEY, *further).agg(*(F.sum(name).alias(name) for name in sums))


def by_rule(rows: DataFrame) -> DataFrame:
    """Each row once per counting rule, with `units` billed under that rule."""
    rules = rows.withColumn("rule", F.explode(F.array(*map(F.lit, RULES))))
    units = reduce(lambda rest, rule: F.when(F.col("rule") == rule, billed(rule)).otherwise(rest), RULES, F.lit(None))
    return rules.withColumn("units", units)


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


def hours_on_the_ladder(brief: DataFrame, starts: Sequence[int]) -> DataFrame:
    """Per rule, scope and hour: the units used `before` it in the month, and its `lowest` and `highest` tier."""
    sums = brief.where("hour is not null").groupBy("scope", "date", "hour").agg(*(F.sum(r).alias(r) for r in RULES))
    used = sums.unpivot(["scope", "date", "hour"], list(RULES), "rule", "used").where("used > 0")
    return _climbed(used.withColumn("begin", F.lit(0)), ("rule", "scope"), "hour", starts)


def minutes_on_the_ladder(minutes: DataFrame, ladder: DataFrame, starts: Sequence[int]) -> DataFrame:
    """The same per minute, of the hours in which a tier begins."""
    split = ladder.where("lowest < highest").select("rule", "scope", "hour", F.col("before").alias("begin"))
    sums = minutes.groupBy("scope", "hour", "minute").agg(*(F.sum(billed(rule)).alias(rule) for rule in RULES))
    used = sums.unpivot(["scope", "hour", "minute"], list(RULES), "rule", "used")
    return _climbed(
        used.join(F.broadcast(split), ["rule", "scope", "hour"]), ("rule", "scope", "hour"), "minute", starts
    )


def _climbed(used: DataFrame, on_its_own: Sequence[str], time: str, starts: Sequence[int]) -> DataFrame:
    """What was `used` at each time, with the units `before` it and its `lowest` and `highest` tier, by the rule and
    whatever else stands `on_its_own`, from the unit where it is to `begin`.
    """
    earlier = Window.partitionBy(*on_its_own).orderBy(time).rowsBetween(Window.unboundedPreceding, -1)
    placed = used.withColumn("before", F.col("begin") + F.coalesce(F.sum("used").over(earlier), F.lit(0)))
    last = F.greatest(F.col("before"), F.col("before") + F.col("used") - 1)
    tiers = {"lowest": _tier_at(F.col("before"), starts), "highest": _tier_at(last, starts)}
    return placed.withColumns(tiers).drop("begin", "used")


def _tier_at(unit: Column, starts: Sequence[int]) -> Column:
    """The tier of the unit with this number (from 0)."""
    return reduce(add, ((unit >= F.lit(start)).cast("int") for start in starts)) - 1


def days_of_steps(ladder: DataFrame) -> DataFrame:
    """The scopes and days in which another tier begins, with the `hours` within which one does (seconds since 1970)."""
    within = F.when(F.col("lowest") < F.col("highest"), F.unix_seconds("hour"))
    days = ladder.groupBy("rule", "scope", "date").agg(
        F.min("lowest").alias("lowest"), F.max("highest").alias("highest"), F.collect_set(within).alias("hours")
    )
    steps = days.where("lowest < highest").groupBy("scope", "date")
    return steps.agg(F.array_distinct(F.flatten(F.collect_list("hours"))).alias("hours"))


def in_one_tier(
    brief: DataFrame, hours: DataFrame, ladder: DataFrame, steps: Collection[Row], starts: Sequence[int]
) -> DataFrame:
    """The days and hours that lie inside one tier, their units put there as t0, t1, …, summed by day.

    Only of the `steps`, the scopes and days in which another tier begins, the hours are needed; all other days lie in
    one tier as a whole, so that for them the brief is enough.
    """
    columns = (*KEY, "date", *SUMS)
    stepped = F.concat_ws(" ", "date", "scope").isin(*(f"{step['date']} {step['scope']}" for step in steps))
    days = brief.where(F.col("hour").isNull() & ~stepped).select(*columns)
    days = days.join(F.broadcast(_tiers_at(ladder, "date")), ["scope", "date"], "left").select(*columns, *RULES)
    on_its_days = F.col("date").isin(*{step["date"] for step in steps})  # of no other file is read
    parted = hours.where(on_its_days & stepped)
    parted = _summed(parted.join(F.broadcast(_tiers_at(ladder, "hour")), ["scope", "hour"], "left"), "date", *RULES)
    return _in_places(days.unionByName(parted.select(*columns, *RULES)), f"tier is null or tier <> {SPLIT}", starts)


def minutes_in_one_tier(minutes: DataFrame, ladder: DataFrame, starts: Sequence[int]) -> DataFrame:
    """The same of minutes, whose `ladder` has them under the rules by which a tier begins in their hour."""
    placed = minutes.join(F.broadcast(_tiers_at(ladder, "minute")), ["scope", "minute"])
    return _in_places(_summed(placed, "date", *RULES), f"tier <> {SPLIT}", starts)


def _tiers_at(ladder: DataFrame, time: str) -> DataFrame:
    """By scope and time the tier under each rule, a column each: SPLIT where one begins in it, null where the ladder
    has none.
    """
    of_rule = {rule: F.col("rule") == rule for rule in RULES}
    lowest = {rule: F.min(F.when(is_it, F.col("lowest"))) for rule, is_it in of_rule.items()}
    highest = {rule: F.max(F.when(is_it, F.col("highest"))) for rule, is_it in of_rule.items()}
    tiers = (F.when(lowest[rule] < highest[rule], SPLIT).otherwise(lowest[rule]).alias(rule) for rule in RULES)
    return ladder.groupBy("scope", time).agg(*tiers)


def _in_places(sums: DataFrame, wanted: str, starts: Sequence[int]) -> DataFrame:
    """Sums with their tier under each rule, if the `tier` is requested."""
    of_rule = reduce(lambda rest, rule: F.when(F.col("rule") == rule, F.col(rule)).otherwise(rest), RULES, F.lit(None))
    placed = by_rule(sums).withColumn("tier", of_rule).where(wanted)
    units = (F.when(F.col("tier") == n, F.col("units")).otherwise(0).alias(f"t{n}") for n in range(len(starts)))
    return placed.select("rule", *KEY, "date", *SUMS, "units", *units)


def across_tiers(minutes: DataFrame, ladder: DataFrame, starts: Sequence[int]) -> DataFrame:
    """The minutes in which a tier begins, row by row: by namespace, entity and kind."""
    split = F.broadcast(ladder.where("lowest < highest").select("rule", "scope", "minute", "before"))
    rows = by_rule(minutes).join(split, ["rule", "scope", "minute"])
    so_far = (
        Window.partitionBy("rule", "scope", "minute")
        .orderBy(*ORDER_IN_MINUTE)
        .rowsBetween(Window.unboundedPreceding, 0)
    )
    placed = rows.withColumn("top", F.col("before") + F.sum("units").over(so_far))
    ends = (*starts[1:], None)
    tiers = (_overlap(start, end).alias(f"t{n}") for n, (start, end) in enumerate(zip(starts, ends, strict=True)))
    return placed.select("rule", *KEY, "date", *SUMS, "units", *tiers)


def beside_the_ladder(brief: DataFrame, tiers: int, basic: Sequence[str]) -> DataFrame:
    """The days of Basic and Premium namespaces: their units in two places behind the ladder's tiers, by their tier."""
    is_basic = F.col("namespace").isin(*basic)
    places = (
        *(F.lit(0).cast("long").alias(f"t{n}") for n in range(tiers)),
        F.when(is_basic, F.col("units")).otherwise(0).alias(f"t{tiers}"),
        F.when(is_basic, F.lit(0)).otherwise(F.col("units")).alias(f"t{tiers + 1}"),
    )
    return by_rule(brief.where("hour is null")).select("rule", *KEY, "date", *SUMS, "units", *places)


def with_places_beside(rows: DataFrame, tiers: int) -> DataFrame:
    """Rows in Standard tiers with the same two additional places, empty."""
    return rows.withColumns({f"t{tiers + n}": F.lit(0).cast("long") for n in (0, 1)})


def _overlap(start: int, end: int | None) -> Column:
    """How many units of a row that ends at `top` are in the tier."""
    highest = F.col("top") if end is None else F.least(F.col("top"), F.lit(end))
    lowest = F.greatest(F.col("top") - F.col("units"), F.lit(start))
    return F.greatest(F.lit(0), highest - lowest)


def totals(placed: DataFrame, tiers: int) -> DataFrame:
    """The placed rows summed twice in one pass: by KEY (`date` is null), by date and kind."""
    names = (*SUMS, "units", *(f"t{n}" for n in range(tiers)))
    # Here, so that two names which are stored as one are one row.
    placed = placed.withColumn("entity", F.translate("entity", "\0", REPLACEMENT))
    by_key, by_day = ("rule", *KEY), ("rule", "scope", "date", "kind")
    return placed.groupingSets([by_key, by_day], *by_key, "date").agg(*(F.sum(name).alias(name) for name in names))


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
