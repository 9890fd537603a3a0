"""The billable units of a month in their price tiers, on Spark: each in the place of its tier, under each rule.

An hour inside one tier needs no more detail. Only the few hours in which a tier begins are processed by minute, and of
these only the minute in which it begins is processed row by row. All arithmetic uses whole units.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from operator import add, or_

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from pipeline.schemas import RULES
from pipeline.transforms import KEY, SUMS, billed

COUNTED = ("operations", "messages", "bytes", "rows")
"""Of a row of the report, what no rule has a say in."""
ORDER_IN_MINUTE = ("namespace", "entity", "kind", "pair")
REPLACEMENT = "\ufffd"
"""For zero bytes, which databases reject."""
SPLIT = -1  # the tier of an hour in which one begins
ENDS = {"lowest": F.min, "highest": F.max}


def hours_on_the_ladder(paces: DataFrame, starts: Sequence[int]) -> DataFrame:
    """Per scope and hour, under each rule: the units used `before` it in the month, and its `lowest` and `highest` tier
    (see `_of`).
    """
    sums = paces.groupBy("scope", "date", "hour").agg(*(F.sum(rule).alias(rule) for rule in RULES))
    return _climbed(sums, ("scope",), ("date", "hour"), {rule: F.lit(0) for rule in RULES}, starts)


def minutes_on_the_ladder(minutes: DataFrame, ladder: DataFrame, starts: Sequence[int]) -> DataFrame:
    """The same per minute, of the hours in which a tier begins; null under a rule by which none does."""
    befores = {rule: F.col(_of(rule, "before")) for rule in RULES}
    split = ladder.where(_is_split_somewhere()).select(
        "scope",
        "hour",
        *(F.when(_is_split(rule), before).alias(_of(rule, "before")) for rule, before in befores.items()),
    )
    sums = minutes.groupBy("scope", "hour", "minute").agg(*(F.sum(billed(rule)).alias(rule) for rule in RULES))
    return _climbed(sums.join(F.broadcast(split), ["scope", "hour"]), ("scope", "hour"), ("minute",), befores, starts)


def _of(rule: str, what: str) -> str:
    """The column of a ladder that says this under the rule. Both rules stand beside each other, so that the month is
    climbed once.
    """
    return f"{rule}_{what}"


def _climbed(
    used: DataFrame,
    on_its_own: Sequence[str],
    times: Sequence[str],
    begins: Mapping[str, Column],
    starts: Sequence[int],
) -> DataFrame:
    """What was used at each of the times under each rule, with the units before it and its lowest and highest tier, by
    whatever stands `on_its_own`, from the unit where it begins.
    """
    earlier = Window.partitionBy(*on_its_own).orderBy(times[-1]).rowsBetween(Window.unboundedPreceding, -1)
    so_far = {rule: F.coalesce(F.sum(rule).over(earlier), F.lit(0)) for rule in RULES}
    befores = {rule: (begins[rule] + so_far[rule]).alias(_of(rule, "before")) for rule in RULES}
    placed = used.select(*on_its_own, *times, *RULES, *befores.values())
    tiers: list[Column] = []
    for rule in RULES:
        first = F.col(_of(rule, "before"))
        last = first + F.greatest(F.col(rule) - 1, F.lit(0))
        tiers += [first, _tier_at(first, starts).alias(_of(rule, "lowest"))]
        tiers += [_tier_at(last, starts).alias(_of(rule, "highest"))]
    return placed.select(*on_its_own, *times, *tiers)


def _is_split(rule: str) -> Column:
    """Whether a tier begins within the time, under the rule."""
    return F.col(_of(rule, "lowest")) < F.col(_of(rule, "highest"))


def _is_split_somewhere() -> Column:
    return reduce(or_, map(_is_split, RULES))


def _tier_at(unit: Column, starts: Sequence[int]) -> Column:
    """The tier of the unit with this number (from 0)."""
    return reduce(add, ((unit >= F.lit(start)).cast("int") for start in starts)) - 1


def days_of_steps(ladder: DataFrame) -> DataFrame:
    """The scopes and days in which another tier begins, with the `hours` within which one does (seconds since 1970)."""
    within = F.when(_is_split_somewhere(), F.unix_seconds("hour"))
    days = _by_date(ladder, F.collect_set(within).alias("hours"))
    return days.where(_is_split_somewhere()).select("scope", "date", "hours")


def _by_date(ladder: DataFrame, *further: Column) -> DataFrame:
    """The lowest and highest tier of whole days."""
    ends = [end(_of(rule, name)).alias(_of(rule, name)) for rule in RULES for name, end in ENDS.items()]
    return ladder.groupBy("scope", "date").agg(*ends, *further)


def days_in_one_tier(
    days: DataFrame, hours: DataFrame, ladder: DataFrame, steps: Collection[Row], starts: Sequence[int]
) -> DataFrame:
    """The days, and hours of the others, that lie inside one tier, their units in its place.

    Only of the `steps`, the scopes and days in which another tier begins, the hours are needed; all other days lie in
    one tier as a whole, so that for them the sums over the day are enough.
    """
    stepped = F.concat_ws(" ", "date", "scope").isin(*(f"{step['date']} {step['scope']}" for step in steps))
    whole = days.where(~stepped).select(*KEY, "date", *SUMS)
    whole = whole.join(F.broadcast(_tiers_at(_by_date(ladder), "date")), ["scope", "date"])
    on_its_days = F.col("date").isin(*{step["date"] for step in steps})  # of no other file is read
    parted = _with_tiers(hours.where(on_its_days & stepped), ladder)
    return _in_places(whole.unionByName(parted), starts)


def hours_in_one_tier(hours: DataFrame, ladder: DataFrame, starts: Sequence[int]) -> DataFrame:
    """The same of hours alone, in one pass."""
    return _in_places(_with_tiers(hours, ladder), starts)


def _with_tiers(hours: DataFrame, ladder: DataFrame) -> DataFrame:
    sums = hours.select(*KEY, "date", "hour", *SUMS)
    return sums.join(F.broadcast(_tiers_at(ladder, "hour")), ["scope", "hour"]).drop("hour")


def minutes_in_one_tier(minutes: DataFrame, ladder: DataFrame, starts: Sequence[int]) -> DataFrame:
    """The same of minutes, whose `ladder` has them under the rules by which a tier begins in their hour."""
    return _in_places(minutes.join(F.broadcast(_tiers_at(ladder, "minute")), ["scope", "minute"]), starts)


def _tiers_at(ladder: DataFrame, time: str) -> DataFrame:
    """By scope and time the tier under each rule, a column each: SPLIT where one begins in it, null where the ladder
    has none.
    """
    tiers = (F.when(_is_split(rule), SPLIT).otherwise(F.col(_of(rule, "lowest"))).alias(rule) for rule in RULES)
    return ladder.select("scope", time, *tiers)


def place(rule: str, number: int) -> str:
    """The column of the units that are billed under the rule in its tier of this number."""
    return f"{rule}_{number}"


def _in_places(sums: DataFrame, starts: Sequence[int]) -> DataFrame:
    """Sums that have their tier under each rule, with their units in its place. They count where that is one tier."""
    # A part of the sums that counts under one rule alone counts elsewhere under the other: operations are taken once.
    counts = F.col(RULES[0]) != SPLIT
    counted = (F.when(counts, F.col(name)).otherwise(0).alias(name) for name in COUNTED)
    units = (
        F.when(F.col(rule) == n, of_rule).otherwise(0).alias(place(rule, n))
        for rule, of_rule in ((rule, billed(rule)) for rule in RULES)
        for n in range(len(starts))
    )
    return sums.select(*KEY, "date", *counted, *units)


def across_tiers(minutes: DataFrame, ladder: DataFrame, starts: Sequence[int]) -> DataFrame:
    """The minutes in which a tier begins, row by row: by namespace, entity and kind."""
    befores = (F.when(_is_split(rule), F.col(_of(rule, "before"))).alias(_of(rule, "before")) for rule in RULES)
    split = ladder.where(_is_split_somewhere()).select("scope", "minute", *befores)
    so_far = Window.partitionBy("scope", "minute").orderBy(*ORDER_IN_MINUTE)
    so_far = so_far.rowsBetween(Window.unboundedPreceding, 0)
    tops = {_of(rule, "top"): F.col(_of(rule, "before")) + F.sum(billed(rule)).over(so_far) for rule in RULES}
    placed = minutes.join(F.broadcast(split), ["scope", "minute"]).withColumns(tops)
    is_split = {rule: F.col(_of(rule, "before")).isNotNull() for rule in RULES}
    counted = (F.when(is_split[RULES[0]], F.col(name)).otherwise(0).alias(name) for name in COUNTED)
    ends = tuple(enumerate(zip(starts, (*starts[1:], None), strict=True)))
    units = (
        F.when(is_split[rule], _overlap(rule, start, end)).otherwise(0).alias(place(rule, n))
        for rule in RULES
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


def _overlap(rule: str, start: int, end: int | None) -> Column:
    """How many units of a row that ends at the rule's top are in the tier."""
    top = F.col(_of(rule, "top"))
    highest = top if end is None else F.least(top, F.lit(end))
    return F.greatest(F.lit(0), highest - F.greatest(top - billed(rule), F.lit(start)))


def totals(placed: DataFrame, tiers: int) -> DataFrame:
    """The placed rows summed twice in one pass: by KEY (`date` is null), and by scope, date and kind; without those of
    which no row is left.
    """
    names = (*COUNTED, *(place(rule, n) for rule in RULES for n in range(tiers)))
    # Here, so that two names which are stored as one are one row.
    replaced = F.translate("entity", "\0", REPLACEMENT)  # takes longer than to look whether there is one
    has_zero_byte = F.contains("entity", F.lit("\0"))
    placed = placed.withColumn("entity", F.when(has_zero_byte, replaced).otherwise(F.col("entity")))
    sums = (F.sum(name).alias(name) for name in names)
    return placed.groupingSets([KEY, ("scope", "date", "kind")], *KEY, "date").agg(*sums).where("rows <> 0")
