"""Hours that are looked at minute by minute, from a kept table: their rows alone, and what that must not change."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.charges import Request, compute
from pipeline.errors import InputError
from pipeline.schemas import USAGE
from tests.pipeline.conftest import Write, write_table
from tests.pipeline.test_charges_on_spark import MILLION, NOW, OCTOBER, PRICES, computed, record

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    "other_minute",
    [
        pytest.param(timedelta(0), id="a copy in the same minute"),
        pytest.param(3 * HOUR, id="one identity in two hours of a day", marks=pytest.mark.nightly),
    ],
)
def test_the_hour_in_which_a_tier_begins_counts_each_record_once(
    spark: SparkSession, usage: Path, write: Write, other_minute: timedelta
) -> None:
    minutes = [OCTOBER.start + timedelta(minutes=n) for n in range(30)]
    rows = [
        record(f"r{n}", minute, units=MILLION) for n, minute in enumerate(minutes)
    ]  # the allowance ends in minute 13
    later = rows[20] | {"seq": 2, "minute": minutes[20] + other_minute, "billing_units": 2 * MILLION}
    write([*rows, later], USAGE)
    full, kept = computed(spark, usage), computed(spark, usage, incremental=True)
    assert kept == full
    assert full.counts.copies == 1
    (published, _) = full.priced
    assert published.invoice.tiers[:2] == (13 * MILLION, 18 * MILLION)


@pytest.mark.nightly
def test_what_comes_between_the_hours_and_the_minutes_is_the_next_runs_and_what_changes_is_reported(
    spark: SparkSession, usage: Path, write: Write
) -> None:
    rows = [record(f"r{n}", OCTOBER.start + timedelta(minutes=n), units=MILLION) for n in range(30)]
    write(rows, USAGE)
    before = computed(spark, usage)
    request = Request(month=OCTOBER, usage=str(usage), prices=PRICES, incremental=True)
    late = usage / "usage" / "date=2026-10-01" / "late.parquet"

    def write_late(stage: str, share: float, count: int) -> None:
        if stage == "pricing":  # the hours are summed by then
            more = [rows[0] | {"record_id": f"late-{n}"} for n in range(2 if late.exists() else 1)]
            write_table(late, more, USAGE)

    assert compute(spark, request, NOW, write_late) == before
    with pytest.raises(InputError, match="their files changed while they were read; the next run looks again"):
        compute(spark, request, NOW, write_late)
    assert computed(spark, usage, incremental=True) == computed(spark, usage)
