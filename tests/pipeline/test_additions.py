"""Rows that come to days already summed: the sums are those of all rows together, whatever came before."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline import transforms
from pipeline.additions import add
from pipeline.held import hold
from pipeline.schemas import USAGE
from tests.pipeline.conftest import frame_of
from tests.pipeline.test_charges_on_spark import OCTOBER, record

pytestmark = pytest.mark.spark
DAYS = 3
Row = dict[str, Any]


def some_rows(random: Random, count: int) -> list[Row]:
    """Rows with few identities, so that most are versions of another, on its day or on another one."""
    rows = []
    for _ in range(count):
        day = random.randrange(DAYS)
        minute = OCTOBER.start + timedelta(days=day, hours=random.randrange(3), minutes=random.randrange(2))
        kind, seq, units = random.choice(["send", "settle"]), random.randrange(4), random.randrange(100)
        fact = record(f"r{random.randrange(60)}", minute, kind=kind, seq=seq, units=units)
        rows.append(fact | {"date": minute.date().isoformat()})
    return rows


def those_that_count(rows: list[Row]) -> list[Row]:
    """Of each id and day the highest seq, and of versions with the same one the greatest in the order of columns."""
    columns = ("seq", *(name for name in USAGE if name not in ("record_id", "seq")))
    best: dict[tuple[str, str], Row] = {}
    for row in sorted(rows, key=lambda row: [row[name] for name in columns]):
        best[row["record_id"], row["date"]] = row
    return list(best.values())


def summed(rows: list[Row]) -> list[tuple[object, ...]]:
    """The sums by hour, in plain Python."""
    hours: dict[tuple[object, ...], list[int]] = defaultdict(lambda: [0] * len(transforms.SUMS))
    for row in rows:
        hour = row["minute"].replace(minute=0)
        key = (*(row[name] for name in transforms.KEY), row["date"], int(hour.timestamp()))
        for n, name in enumerate(transforms.SUMS):
            hours[key][n] += 1 if name == "rows" else row[name]
    return sorted((*key, *sums) for key, sums in hours.items())


def reported(hours: DataFrame) -> list[tuple[object, ...]]:
    columns = [*transforms.KEY, "date", "unix_seconds(hour)", *transforms.SUMS]
    return sorted(tuple(row) for row in hours.selectExpr(*columns).collect())


def counted(rows: list[Row]) -> dict[str, int]:
    return dict(Counter(row["date"] for row in rows))


def test_sums_that_are_added_to_are_those_of_all_rows_together(spark: SparkSession, tmp_path: Path) -> None:
    random = Random(4711)
    old, new = some_rows(random, 150), some_rows(random, 40)
    frames = [frame_of(spark, tmp_path / f"{n}.parquet", rows) for n, rows in enumerate((old, new))]
    old_rows, new_rows = (transforms.hashed(frame, transforms.WITHIN_A_DAY) for frame in frames)
    copies = transforms.find_copies(old_rows, identity=transforms.WITHIN_A_DAY)
    kept = transforms.hourly_without_copies(old_rows, copies, transforms.WITHIN_A_DAY)

    added = add(kept, old_rows, hold(new_rows), F.lit(True))

    assert reported(added.hours) == summed(those_that_count(old + new))
    assert added.rows == counted(new)
    before, after = counted(those_that_count(old)), counted(those_that_count(old + new))
    assert added.copies == {day: rows + before[day] - after[day] for day, rows in added.rows.items()}
