"""The billable units of a month in their price tiers, on Spark: each in the place of its tier, under each rule.

An hour inside one tier needs no more detail. Only the few hours in which a tier begins are processed by minute, and of
these only the minute in which it begins is processed row by row. All arithmetic uses whole units.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce
from operator import add

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from pipeline.schemas import RULES
from pipeline.transforms import KEY, SUMS, billed, by_rule

COUNTED = ("operations", "messages", "bytes", "rows")
"""Of a row of the report, what no rule has a say in."""
ORDER_IN_MINUTE = ("namespace", "entity", "kind", "pair")
REPLACEMENT = "\ufffd"
"""For zero bytes, which databases reject."""
SPLIT = -1  # the tier of an hour in which one begins


def hours_on_the_ladder(paces: DataFrame, starts: Sequence[int]) -> DataFrame:
    """Per rule, scope and hour: the units used `before` it in the month, and its `lowest` and `highest` tier."""
    sums = paces.groupBy("scope", "date", "hour").agg(*(F.sum(r).alias(r) for r in RULES))
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


def days_in_one_tier(
    days: DataFrame, hours: DataFrame, ladder: DataFrame, steps: Collection[Row], starts: Sequence[int]
) -> DataFrame:
    """The days, and hours of the others, that lie inside one tier, their units in its place.

    Only of the `steps`, the scopes and days in which another tier begins, the hours are needed; all other days lie in
    one tier as a whole, so that for them the sums over the day are enough.
    """
    stepped = F.concat_ws(" ", "date", "scope").isin(*(f"{step['date']} {step['scope']}" for step in steps))
    whole = days.where(~stepped).select(*KEY, "date", *SUMS)
    whole = whole.join(F.broadcast(_tiers_at(ladder, "date")), ["scope", "date"], "left")
    on_its_days = F.col("date").isin(*{step["date"] for step in steps})  # of no other file is read
    parted = _with_tiers(hours.where(on_its_days & stepped), ladder)
    return _in_places(whole.unionByName(parted), starts, without_tier=True)


def hours_in_one_tier(hours: DataFrame, ladder: DataFrame, starts: Sequence[int]) -> DataFrame:
    """The same of hours alone, in one pass."""
    return _in_places(_with_tiers(hours, ladder), starts, without_tier=True)


def _with_tiers(hours: DataFrame, ladder: DataFrame) -> DataFrame:
    sums = hours.select(*KEY, "date", "hour", *SUMS)
    return sums.join(F.broadcast(_tiers_at(ladder, "hour")), ["scope", "hour"], "left").drop("hour")


def minutes_in_one_tier(minutes: DataFrame, ladder: DataFrame, starts: Sequence[int]) -> DataFrame:
    """The same of minutes, whose `ladder` has them under the rules by which a tier begins in their hour."""
    placed = minutes.join(F.broadcast(_tiers_at(ladder, "minute")), ["scope", "minute"])
    return _in_places(placed, starts, without_tier=False)


def _tiers_at(ladder: DataFrame, time: str) -> DataFrame:
    """By scope and time the tier under each rule, a column each: SPLIT where one begins in it, null where the ladder
    has none.
    """
    of_rule = {rule: F.col("rule") == rule for rule in RULES}
    lowest = {rule: F.min(F.when(is_it, F.col("lowest"))) for rule, is_it in of_rule.items()}
    highest = {rule: F.max(F.when(is_it, F.col("highest"))) for rule, is_it in of_rule.items()}
    tiers = (F.when(lowest[rule] < highest[rule], SPLIT).otherwise(lowest[rule]).alias(rule) for rule in RULES)
    return ladder.groupBy("scope", time).agg(*tiers)


def place(rule: str, number: int) -> str:
    """The column of the units that are billed under the rule in its tier of this number."""
    return f"{rule}_{number}"


def _in_places(sums: DataFrame, starts: Sequence[int], *, without_tier: bool) -> DataFrame:
    """Sums that have their tier under each rule, with their units in its place. They count where that is one tier, and
    where there is none, if so requested.
    """
    # A part of the sums that counts under one rule alone counts elsewhere under the other: operations are taken once.
    counts = F.coalesce(F.col(RULES[0]) != SPLIT, F.lit(without_tier))
    counted = (F.when(counts, F.col(name)).otherwise(0).alias(name) for name in COUNTED)
    units = (
        F.when(F.col(rule) == n, of_rule).otherwise(0).alias(place(rule, n))
        for rule, of_rule in ((rule, billed(rule)) for rule in RULES)
        for n in range(len(starts))
    )
    return sums.select(*KEY, "date", *counted, *units)


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
    of_rule = {rule: F.col("rule") == rule for rule in RULES}
    counted = (F.when(of_rule[RULES[0]], F.col(name)).otherwise(0).alias(name) for name in COUNTED)
    ends = tuple(enumerate(zip(starts, (*starts[1:], None), strict=True)))
    units = (
        F.when(is_it, _overlap(start, end)).otherwise(0).alias(place(rule, n))
        for rule, is_it in of_rule.items()
        for n, (start, end) in ends
    )
    return placed.select(*KEY, "date", *counted, *units)


def beside_the_ladder(days: DataFrame, tiers: int, basic: Sequence[str]) -> DataFrame:
    """The days of Basic and Premium namespaces: their units in two places behind the ladder's tiers, by their tier."""
    is_basic = F.col("namespace").isin(*basic)
    nothing = F.lit(0).cast("long")
    units: list[Column] = []
    for rule in RULES:
        beside = (F.when(which, billed(rule)).otherwise(0) for which in (is_basic, ~is_basic))
        units += [each.alias(place(rule, n)) for n, each in enumerate((*[nothing] * tiers, *beside))]
    return days.select(*KEY, "date", *COUNTED, *units)


def with_places_beside(rows: DataFrame, tiers: int) -> DataFrame:
    """Rows in Standard tiers with the same two additional places, empty."""
    return rows.withColumns({place(rule, tiers + n): F.lit(0).cast("long") for rule in RULES for n in (0, 1)})


def _overlap(start: int, end: int | None) -> Column:
    """How many units of a row that ends at `top` are in the tier."""
    highest = F.col("top") if end is None else F.least(F.col("top"), F.lit(end))
    lowest = F.greatest(F.col("top") - F.col("units"), F.lit(start))
    return F.greatest(F.lit(0), highest - lowest)


def totals(placed: DataFrame, tiers: int) -> DataFrame:
    """The placed rows summed twice in one pass: by KEY (`date` is null), and by scope, date and kind; without those of
    which no row is left.
    """
    names = (*COUNTED, *(place(rule, n) for rule in RULES for n in range(tiers)))
    # Here, so that two names which are stored as one are one row.
    placed = placed.withColumn("entity", F.translate("entity", "\0", REPLACEMENT))
    sums = (F.sum(name).alias(name) for name in names)
    return placed.groupingSets([KEY, ("scope", "date", "kind")], *KEY, "date").agg(*sums).where("rows <> 0")
