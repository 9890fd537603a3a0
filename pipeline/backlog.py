"""The depth of backlogs by hour and day: maximum, median and 95th percentile of the samples."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

SAMPLES = "pair string, queue string, at timestamp, messages long"
ACCURACY = 100_000  # exact up to as many samples in a period: a day of one a second


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollup:
    """A period of one backlog queue, or (`*`) of all queues of a pair; the percentiles are real samples."""

    pair: str
    queue: str
    begins_at: datetime
    is_day: bool
    samples: int
    deepest: int
    p50: int
    p95: int


def read_samples(spark: SparkSession, path: str) -> DataFrame:
    """The samples of a file of JSON lines; what lacks a field or is negative is no sample."""
    return spark.read.schema(SAMPLES).json(path).na.drop().where("messages >= 0")


def rollups(samples: DataFrame) -> list[Rollup]:
    """Every hour and every day with a sample. Days are computed from samples, because percentiles of hours do not add
    up.
    """
    periods = F.array(
        F.struct(F.date_trunc("hour", "at").alias("begins"), F.lit(False).alias("is_day")),
        F.struct(F.date_trunc("day", "at").alias("begins"), F.lit(True).alias("is_day")),
    )
    each = samples.withColumn("period", F.explode(periods))
    rows = each.groupBy("pair", "queue", F.unix_seconds("period.begins").alias("begins"), "period.is_day").agg(
        F.count("*").alias("samples"),
        F.max("messages").alias("deepest"),
        F.percentile_approx("messages", [0.5, 0.95], ACCURACY).alias("percentiles"),
    )
    return [
        Rollup(
            pair=row["pair"],
            queue=row["queue"],
            begins_at=datetime.fromtimestamp(row["begins"], UTC),
            is_day=row["is_day"],
            samples=row["samples"],
            deepest=row["deepest"],
            p50=row["percentiles"][0],
            p95=row["percentiles"][1],
        )
        for row in rows.orderBy("begins", "is_day", "pair", "queue").collect()
    ]
