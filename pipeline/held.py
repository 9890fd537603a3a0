"""Frames that cost little: kept once they are computed, or empty, or summed as fits their number."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from pyspark.sql import DataFrame, SparkSession


def hold(frame: DataFrame) -> DataFrame:
    """The frame, whose rows are kept from the first time they are needed until the cache is cleared.

    Its plan is only the kept rows. Of `persist()` alone the plan is the whole way to them: Spark analyses this again
    with each step that follows, and compares each of its parts with all that is kept.
    """
    kept: Any = frame.persist()
    plan = kept._jdf.queryExecution().withCachedData()
    session = kept.sparkSession
    dataset = session._jvm.org.apache.spark.sql.classic.Dataset
    return DataFrame(dataset.ofRows(session._jsparkSession, plan), session)


def release(held: DataFrame) -> None:
    """Forget the rows of a frame from `hold`; whoever needs them again waits for them again."""
    plan: Any = held._jdf.logicalPlan()
    plan.cacheBuilder().clearCache(False)


FEW_ROWS = 100_000


def together(frame: DataFrame, rows: int) -> DataFrame:
    """The frame with its rows in one partition, if they are few: then nothing that is made of them is shuffled, which
    takes more time than such rows themselves.
    """
    return frame.coalesce(1) if rows <= FEW_ROWS else frame


def nothing(spark: SparkSession, schema: str) -> DataFrame:
    """A frame without rows, whose columns are given as text.

    Spark sees that there are none, and leaves out of a plan what is joined with it. Made of an empty list in Python, it
    would start a Python process that looks for them.
    """
    jvm: Any = spark._jvm
    columns = jvm.org.apache.spark.sql.types.StructType.fromDDL(schema)
    return DataFrame(spark._jsparkSession.createDataFrame(jvm.java.util.ArrayList(), columns), spark)


def collected(frame: DataFrame, *, are_many: bool) -> list[tuple[Any, ...]]:
    """The rows of a frame. Many are sent by column, in half the time; few would wait longer for what does that."""
    if not are_many or find_spec("pyarrow") is None:  # a driver on a cluster needs nothing but Spark
        return list(map(tuple, frame.collect()))
    columns = [column.to_pylist() for column in frame.toArrow().columns]
    return list(zip(*columns, strict=True))
