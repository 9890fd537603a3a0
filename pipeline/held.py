"""Frames that are kept once they are computed, as leaves of the plans that are made of them."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame


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
