"""Settings of Spark that make cheaper plans, for a while, by how many rows they are for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from pyspark.sql import SparkSession

FOR_FEW_ROWS = {
    # No shuffle to speak of, and a plan that is made once, not anew after each of its stages. A fifth of the rest is
    # planning that nobody needs here: checks of the plan after each rule, filters inferred from others, and the text of
    # the plan for pages that are not served.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.lightweightPlanChangeValidation": "false",
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.maxPlanStringLength": "100",
}
MANY_SUMS = 65_536
# Spark looks for the sum of a row in a map of the first MANY_SUMS before it looks in that of all. With more sums, it
# mostly compares names in vain there, a fifth of the time.
FOR_MANY_SUMS = {"spark.sql.codegen.aggregate.map.twolevel.enabled": "false"}


def for_few_rows(spark: SparkSession) -> AbstractContextManager[None]:
    """What is planned meanwhile is of a hundred thousand rows, say."""
    return _set(spark, FOR_FEW_ROWS)


def for_sums(spark: SparkSession, number: int = MANY_SUMS) -> AbstractContextManager[None]:
    """What is planned meanwhile comes to about this number of sums."""
    return _set(spark, FOR_MANY_SUMS if number >= MANY_SUMS else {})


@contextmanager
def _set(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in settings}
    try:
        for name, value in settings.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value_before in before.items():
            if value_before is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value_before)
