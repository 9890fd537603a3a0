"""Adds rows to days that were summed before: late records, corrections, and today's rows since the last run.

Of the existing rows, only those that share an identity with a new row are read again: their previous counts are
subtracted from the sums of the day, and the present counts are added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipeline import transforms
from pipeline.held import hold, nothing
from pipeline.hourly import counted_by_day
from pipeline.schemas import USAGE, ddl


@dataclass(frozen=True, slots=True)
class Added:
    """The days' new `hours`, and by day: the number of present rows (`accepted`) and of the `strays` among them, of new
    good `rows`, and of additional `copies`.
    """

    hours: DataFrame
    accepted: Mapping[str, int]
    rows: Mapping[str, int]
    copies: Mapping[str, int]
    strays: Mapping[str, int]


def add(kept: DataFrame, old: DataFrame | None, new: DataFrame, good: Column) -> Added:
    """The `kept` hours of some days with their `new` rows, `transforms.FEW` at most, among the `old` ones (both hashed
    by `WITHIN_A_DAY`), where there are any that can share an identity with a new one.

    Of the old rows those count that are `good`; which are is only asked of the few that share an identity with a new
    one, and those are held in between: Spark would ask all of them first.
    """
    before, together = nothing(new.sparkSession, ddl(USAGE)), new
    if old is not None:
        met = hold(old.join(F.broadcast(new.select("h")), "h", "left_semi")).where(good).select(*USAGE, "date", "h")
        before, together = hold(transforms.winners(met, transforms.WITHIN_A_DAY)), met.unionByName(new)
    after = hold(transforms.winners(together, transforms.WITHIN_A_DAY))
    hours = hold(transforms.corrected(kept, before, after, transforms.WITHIN_A_DAY))
    reported = {"new": new, "before": before, "after": after}
    counted = counted_by_day(
        accepted=hours.groupBy("date").agg(F.sum("rows").alias("n")),
        strays=hours.groupBy("date").agg(F.sum("strays").alias("n")),
        **{name: rows.groupBy("date").count() for name, rows in reported.items()},
    )
    rows = counted["new"]
    copies = {day: n + counted["before"].get(day, 0) - counted["after"].get(day, 0) for day, n in rows.items()}
    return Added(hours, counted["accepted"], rows, copies, counted["strays"])
