"""Frames that are kept: computed once, a leaf of every plan that is made of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline.held import hold, release
from pipeline.hourly import are_held
from pipeline.sources import Listing, SourceFile

pytestmark = pytest.mark.spark


def test_a_held_frame_is_computed_once_until_it_is_released(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "rows.txt"
    file.write_text("a\nb\n")
    held = hold(spark.read.text(str(file)).where("value <> 'x'"))
    twice = held.join(held.selectExpr("value as other"), held["value"] == "b")
    assert sorted(tuple(row) for row in twice.collect()) == [("b", "a"), ("b", "b")]

    file.write_text("d\ne\n")
    assert sorted(row["value"] for row in held.collect()) == ["a", "b"]
    release(held)
    assert sorted(row["value"] for row in held.collect()) == ["d", "e"]
    spark.catalog.clearCache()


def test_the_plan_of_what_is_made_of_a_held_frame_has_only_the_kept_rows_in_it(spark: SparkSession) -> None:
    frame = spark.range(3).selectExpr("id as a").where("a > 0").selectExpr("a + 1 as b")
    made = hold(frame).where("b > 2")
    analysed: Any = made._jdf.queryExecution().analyzed()
    assert (analysed.nodeName(), analysed.children().head().nodeName()) == ("Filter", "InMemoryRelation")
    assert analysed.children().head().children().isEmpty()
    spark.catalog.clearCache()


@pytest.mark.parametrize(
    ("files", "rows_of_each", "held"),
    [
        (1, 90_000, True),
        (1, 400_000, False),
        (1_440, 32, True),
        (1_440, 400, True),  # a running day, a file a minute: to open them again takes longer
        (1_440, 600, False),
        (50_000, 100, False),  # more than the memory is sure to have room for
        (0, 0, True),
    ],
)
def test_rows_are_held_where_they_are_few_or_in_small_files(files: int, rows_of_each: int, held: bool) -> None:
    listed = tuple(SourceFile(f"{n}.parquet", "2026-10-01", rows_of_each, "us") for n in range(files))
    assert are_held(Listing("", listed, ())) is held
