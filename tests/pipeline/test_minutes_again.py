"""Hours that are looked at minute by minute, from a kept table: their rows alone, and what that must not change."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import Column, SparkSession

from pipeline import kept
from pipeline.charges import Request, compute
from pipeline.errors import InputError
from pipeline.minutes import MILLION as OF_A_SECOND
from pipeline.minutes import Wanted
from pipeline.schemas import USAGE
from tests.pipeline.conftest import Write, write_table
from tests.pipeline.test_charges_on_spark import MILLION, NOW, OCTOBER, PRICES, computed, record

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
HOUR = timedelta(hours=1)
IN, OUT = ([1, "us", first * OF_A_SECOND, (first + 60) * OF_A_SECOND] for first in (0, 3_600))
UNKNOWN = [1, "us", None, None]


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
    full, added_up = computed(spark, usage), computed(spark, usage, incremental=True)
    assert added_up == full
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


@pytest.mark.nightly
def test_the_minutes_of_an_hour_are_computed_again_only_when_a_record_of_it_can_have_changed(
    spark: SparkSession, usage: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    minutes = [OCTOBER.start + timedelta(minutes=n) for n in range(20)]
    rows = [record(f"contoso/host/{minute:%Y%m%dT%H%M}", minute, units=MILLION) for minute in minutes]
    write(rows, USAGE)
    computed(spark, usage, incremental=True)
    later = OCTOBER.start + 7 * HOUR
    write([record(f"contoso/host/{later:%Y%m%dT%H%M}", later, units=MILLION)], USAGE)
    with monkeypatch.context() as not_again:
        not_again.setattr(kept, "_minutes_again", None)
        assert computed(spark, usage, incremental=True) == computed(spark, usage)

    # another writer's version of a record of the hour, in another hour
    write([rows[15] | {"seq": 2, "minute": later}], USAGE)
    full = computed(spark, usage)
    assert computed(spark, usage, incremental=True) == full
    assert full.counts.copies == 1


@pytest.mark.parametrize(
    ("change", "is_looked_at"),
    [
        ({"marks": {"in": "1", "out": "3"}}, False),
        ({"marks": {"in": "1", "out": "2", "new": "3"}, "footers": {"in": IN, "out": OUT, "new": OUT}}, False),
        ({"marks": {"in": "3", "out": "2"}}, True),
        ({"marks": {"in": "1", "out": "2", "new": "3"}, "footers": {"in": IN, "out": OUT, "new": IN}}, True),
        ({"marks": {"in": "1", "out": "2", "new": "3"}, "footers": {"in": IN, "out": OUT, "new": UNKNOWN}}, True),
        ({"marks": {"in": "1", "out": "2", "unreadable": "3"}}, True),
        ({"strays": 1}, True),
        ({"fingerprint": ""}, True),
    ],
)
def test_what_is_looked_at_again_follows_from_footers_and_from_ids(change: dict[str, Any], is_looked_at: bool) -> None:
    entry = {"fingerprint": "f", "strays": 0, "marks": {"in": "1", "out": "2"}, "footers": {"in": IN, "out": OUT}}
    wanted = Wanted("hours", {}, cast("Column", None), [0])
    assert (kept._looked_at(entry | change, wanted) != kept._looked_at(entry, wanted)) is is_looked_at
