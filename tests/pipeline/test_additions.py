"""Rows that come to days already summed: the sums are those of all rows together, whatever came before."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline import transforms
from pipeline.additions import add
from pipeline.held import hold
from pipeline.schemas import USAGE, ddl
from tests.pipeline.test_charges_on_spark import OCTOBER, record

pytestmark = pytest.mark.spark
DAYS = 3


def some_rows(spark: SparkSession, random: Random, count: int) -> DataFrame:
    """Rows with few identities, so that most are versions of another, on its day or on another one."""
    rows = []
    for _ in range(count):
        day = random.randrange(DAYS)
        minute = OCTOBER.start + timedelta(days=day, hours=random.randrange(3), minutes=random.randrange(2))
        kind, seq, units = random.choice(["send", "settle"]), random.randrange(4), random.randrange(100)
        fact = record(f"r{random.randrange(60)}", minute, kind=kind, seq=seq, units=units)
        rows.append(fact | {"date": minute.date().isoformat()})
    return hold(transforms.hashed(spark.createDataFrame(rows, ddl(USAGE)), transforms.WITHIN_A_DAY))


def summed(rows: DataFrame) -> DataFrame:
    copies = transforms.find_copies(rows, identity=transforms.WITHIN_A_DAY)
    return hold(transforms.hourly_without_copies(rows, copies))


def reported(hours: DataFrame) -> list[tuple[object, ...]]:
    columns = [*transforms.KEY, "date", "hour", *transforms.SUMS]
    return sorted(tuple(row) for row in hours.selectExpr(*columns[:6], "unix_seconds(hour)", *columns[7:]).collect())


def counted(rows: DataFrame) -> dict[str, int]:
    return {row["date"]: row["count"] for row in rows.groupBy("date").count().collect()}


def test_sums_that_are_added_to_are_those_of_all_rows_together(spark: SparkSession) -> None:
    random = Random(4711)
    old, new = some_rows(spark, random, 150), some_rows(spark, random, 40)
    everything = summed(old.unionByName(new))
    added = add(summed(old), old, new, F.lit(True))

    assert reported(added.hours) == reported(everything)
    assert added.rows == counted(new)
    before, after = counted(those_that_count(old)), counted(those_that_count(old.unionByName(new)))
    assert added.copies == {day: rows + before[day] - after[day] for day, rows in added.rows.items()}


def those_that_count(rows: DataFrame) -> DataFrame:
    return transforms.winners(rows, transforms.WITHIN_A_DAY)
