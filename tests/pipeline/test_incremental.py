"""The kept hourly table: a run after a change comes to what a full run comes to, and looks only at changed days."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.charges import Request, compute
from pipeline.results import Outcome
from pipeline.schemas import USAGE
from tests.pipeline.conftest import Write, write_table
from tests.pipeline.test_charges_on_spark import MILLION, NOW, OCTOBER, PRICES, computed, record

pytestmark = pytest.mark.spark


def month(first_day: int, change: int = 0) -> list[dict[str, object]]:
    days = [OCTOBER.start + timedelta(days=n) for n in (0, 8, 20)]
    return [
        record(f"{n}-{kind}", day, units=7 * MILLION + change, kind=kind)
        for n, day in enumerate(days)
        if n >= first_day
        for kind in ("send", "settle")
    ]


def both(spark: SparkSession, usage: Path) -> tuple[Outcome, Outcome]:
    return computed(spark, usage), computed(spark, usage, incremental=True)


def test_an_incremental_month_equals_a_full_one_also_after_changes(
    spark: SparkSession, usage: Path, write: Write
) -> None:
    write(month(0), USAGE)
    computed(spark, usage, incremental=True)
    # a correction, a copy, a bad row and an unreadable file on the last day, another day gone
    corrected = [row | {"seq": 2, "billing_units": 9 * MILLION} for row in month(2)]
    write([*corrected, *month(2), *(record(f"x{n}", month(2)[0]["minute"]) for n in range(60))], USAGE)  # type: ignore[arg-type]
    write([record("bad", OCTOBER.start + timedelta(days=20), kind="teleport")], USAGE)
    next((usage / "usage" / "date=2026-10-09").iterdir()).unlink()
    full, incremental = both(spark, usage)
    assert incremental == full
    assert (full.counts.copies, full.counts.quarantined) == (4, 1)


def test_unchanged_days_are_not_read_again_unless_the_manifest_is_damaged(
    spark: SparkSession, usage: Path, write: Write
) -> None:
    write(month(0, change=-6 * MILLION), USAGE)  # inside the allowance: no hour is taken minute by minute
    before = computed(spark, usage, incremental=True)
    stages: list[str] = []
    request = Request(month=OCTOBER, usage=str(usage), prices=PRICES, incremental=True)
    after = compute(spark, request, NOW, lambda stage, share, rows: stages.append(stage))
    assert after == before
    assert stages == ["looking at the files", "pricing", "done"]

    (usage / "hourly" / "_2026-10.json").write_text("{half written")
    (usage / "hourly" / "._2026-10.json.crc").unlink()
    assert computed(spark, usage, incremental=True) == before


def test_a_row_from_the_future_is_looked_at_again_when_its_time_has_come(spark: SparkSession, usage: Path) -> None:
    day = OCTOBER.start + timedelta(days=2)
    rows = [record("now", day), *(record(f"later{n}", day + timedelta(hours=12)) for n in range(2))]
    write_table(usage / "usage" / f"date={day.date()}" / "a.parquet", rows, USAGE)
    request = Request(month=OCTOBER, usage=str(usage), prices=PRICES, incremental=True, max_quarantined=1)  # type: ignore[arg-type]
    early = compute(spark, request, day)
    late = compute(spark, request, day + timedelta(days=1))
    assert (early.counts.accepted, early.counts.quarantined) == (1, 2)
    assert (late.counts.accepted, late.counts.quarantined) == (3, 0)
