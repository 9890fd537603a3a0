"""Records whose id does not name their minute: only they can be on two days, or in two minutes of one.

The library's ids name the minute of their record, so that all copies of a record are in one minute. The ids of another
writer need not: of each such record an incremental run keeps eight bytes, by which it sees whether a changed day shares
an id with another one.
"""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

SCHEMA = "h long, names_another boolean, date string"


def is_stray() -> Column:
    """Whether the row's id does not name the row's minute."""
    return ~F.endswith(_stamped(), F.date_format("minute", "/yyyyMMdd'T'HHmm"))


def _stamped() -> Column:
    """The library's ids up to their minute, ``pair/reporter/20261005T1007`` of ``pair/reporter/20261005T1007/…``: an id
    has one stamp, whatever row it is in, so that it names one minute at most.
    """
    return F.substring_index("record_id", "/", 3)


def keep(rows: DataFrame, place: str, mode: str) -> None:
    """Keep the strays among the rows, by day; `mode`: whether they "overwrite" what their days have, or "append"."""
    strays = rows.where(is_stray())
    stamp = F.right(_stamped(), F.lit(len("/20261005T1007")))
    own = F.concat(F.lit("/"), F.replace("date", F.lit("-"), F.lit("")), F.lit("T"))
    named = F.regexp_like(stamp, F.lit("^/[0-9]{8}T")) & ~F.startswith(stamp, own)
    kept = strays.select(F.xxhash64("record_id").alias("h"), named.alias("names_another"), "date")
    kept.write.mode(mode).partitionBy("date").parquet(place)


def days_with_shared_ids(spark: SparkSession, place: str, days: Collection[str], changed: Collection[str]) -> set[str]:
    """The days that may have an id in common, if one of them has `changed`; `days`: all that have strays.

    A stray that names another day may be a record of that day: its day is among them, whatever that day has.
    """
    if not changed:
        return set()
    paths = [f"{place}/date={day}" for day in sorted(days)]
    kept = spark.read.schema(SCHEMA).option("basePath", place).parquet(*paths)
    new = kept.where(F.col("date").isin(*changed))
    others = kept.select("h", F.col("date").alias("other"))
    common = new.join(others, "h").where("date <> other").select(F.explode(F.array("date", "other")).alias("date"))
    found = common.unionByName(new.where("names_another").select("date")).distinct()
    return {row["date"] for row in found.collect()}
