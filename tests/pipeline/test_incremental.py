"""The kept hourly table: a run after a change comes to what a full run comes to, and looks only at changed days."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from pipeline import hourly, kept, transforms
from pipeline.charges import Request, compute
from pipeline.schemas import USAGE
from pipeline.sources import Listing
from tests.pipeline.conftest import Write, write_table
from tests.pipeline.test_charges_on_spark import MILLION, NOW, OCTOBER, PRICES, computed, record

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def month(first_day: int) -> list[dict[str, object]]:
    days = [OCTOBER.start + timedelta(days=n) for n in (0, 8, 20)]
    return [
        record(f"{n}-{kind}", day, units=7 * MILLION, kind=kind)
        for n, day in enumerate(days)
        if n >= first_day
        for kind in ("send", "settle")
    ]


def test_an_incremental_month_equals_a_full_one_after_changes_and_damage_and_reads_unchanged_days_once(
    spark: SparkSession, usage: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(month(0), USAGE)
    before = computed(spark, usage, incremental=True)
    stages: list[str] = []
    summed: list[Listing] = []
    request = Request(month=OCTOBER, usage=str(usage), prices=PRICES, incremental=True)
    with monkeypatch.context() as unchanged:
        unchanged.setattr(hourly, "read_files", None)  # no row is looked at again
        assert compute(spark, request, NOW, lambda stage, share, rows: stages.append(stage)) == before
    assert stages == ["looking at the files", "pricing", "done"]

    # a correction, a copy, a bad row and an unreadable file on the last day, another day gone
    corrected = [row | {"seq": 2, "billing_units": 9 * MILLION} for row in month(2)]
    write([*corrected, *month(2), *(record(f"x{n}", month(2)[0]["minute"]) for n in range(60))], USAGE)  # type: ignore[arg-type]
    write([record("bad", OCTOBER.start + timedelta(days=20), kind="teleport")], USAGE)
    next((usage / "usage" / "date=2026-10-09").iterdir()).unlink()
    full = computed(spark, usage)
    with monkeypatch.context() as watched:
        watched.setattr(kept, "sum_up", lambda *given: (summed.append(given[1]), hourly.sum_up(*given))[1])
        assert computed(spark, usage, incremental=True) == full
    assert [file.day for listing in summed for file in listing.files] == []  # the last day only grew
    assert (full.counts.copies, full.counts.quarantined) == (4, 1)


@pytest.mark.nightly
def test_a_month_is_priced_without_the_hours_of_a_day_in_brief_and_without_notes_that_can_be_read(
    spark: SparkSession, usage: Path, write: Write
) -> None:
    write(month(0), USAGE)
    before = computed(spark, usage, incremental=True)
    day, aside = usage / "hourly" / "date=2026-10-21", usage / "aside"
    shutil.copytree(day, aside)
    for file in day.iterdir():
        file.unlink()  # no tier begins on that day: what is in brief is enough
    assert computed(spark, usage, incremental=True) == before
    shutil.copytree(aside, day, dirs_exist_ok=True)
    (usage / "hourly" / "_2026-10.json").write_text("{half written")  # which is not what its checksum says
    assert computed(spark, usage, incremental=True) == before == computed(spark, usage)


@pytest.mark.nightly
def test_what_was_kept_in_another_shape_is_summed_again(spark: SparkSession, usage: Path, write: Write) -> None:
    write(month(2), USAGE)
    before = computed(spark, usage, incremental=True)
    manifest = usage / "hourly" / "_2026-10.json"
    earlier = {day: entry | {"shape": 1} for day, entry in json.loads(manifest.read_text()).items()}
    manifest.write_text(json.dumps(earlier))
    manifest.with_name(f".{manifest.name}.crc").unlink()
    shutil.rmtree(usage / "hourly" / "_brief")  # which there was not in that shape
    assert computed(spark, usage, incremental=True) == before


@pytest.mark.nightly
def test_where_much_came_the_days_are_summed_from_the_start(
    spark: SparkSession, usage: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(month(2), USAGE)
    computed(spark, usage, incremental=True)
    write(month(1), USAGE)
    full = computed(spark, usage)
    monkeypatch.setattr(transforms, "FEW", 1)
    monkeypatch.setattr(kept, "add", None)  # nothing is added to a day
    assert computed(spark, usage, incremental=True) == full


@pytest.mark.nightly
def test_a_run_that_breaks_off_before_it_notes_what_it_wrote_is_not_believed(
    spark: SparkSession, usage: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(month(2), USAGE)
    computed(spark, usage, incremental=True)
    write([record("more", month(2)[0]["minute"], units=9 * MILLION)], USAGE)  # type: ignore[arg-type]
    with monkeypatch.context() as broken:
        broken.setattr(kept, "asdict", None)  # the day's brief and hours are written by then
        with pytest.raises(TypeError):
            computed(spark, usage, incremental=True)
    assert computed(spark, usage, incremental=True) == computed(spark, usage)


@pytest.mark.nightly
def test_a_row_from_the_future_is_looked_at_again_when_its_time_has_come(spark: SparkSession, usage: Path) -> None:
    day = OCTOBER.start + timedelta(days=2)
    rows = [record("now", day), *(record(f"later{n}", day + timedelta(hours=12)) for n in range(2))]
    write_table(usage / "usage" / f"date={day.date()}" / "a.parquet", rows, USAGE)
    request = Request(month=OCTOBER, usage=str(usage), prices=PRICES, incremental=True, max_quarantined=1)  # type: ignore[arg-type]
    early = compute(spark, request, day)
    late = compute(spark, request, day + timedelta(days=1))
    assert (early.counts.accepted, early.counts.quarantined) == (1, 2)
    assert (late.counts.accepted, late.counts.quarantined) == (3, 0)


@pytest.mark.nightly
def test_a_day_that_grew_below_the_next_tier_counts_what_came_once(
    spark: SparkSession, usage: Path, write: Write
) -> None:
    write([record("before", OCTOBER.start, units=5 * MILLION)], USAGE)
    computed(spark, usage, incremental=True)
    write([record("more", OCTOBER.start, units=MILLION)], USAGE)
    assert computed(spark, usage, incremental=True) == computed(spark, usage)
    assert kept_in_brief(spark, usage) == {("2026-10-01", 6 * MILLION)}


def kept_in_brief(spark: SparkSession, usage: Path) -> set[tuple[str, int]]:
    """The units of each day as they are kept in brief; what is kept by the hour comes to the same."""
    table = spark.read.parquet(str(usage / "hourly"))
    brief = spark.read.parquet(str(usage / "hourly" / "_brief"))
    reported = [
        frame.groupBy("date").agg(F.sum("billing_units").alias("units")).collect()
        for frame in (table, brief.where("hour is null"), brief.where("hour is not null"))
    ]
    by_hour, by_day, by_pace = ({(str(row["date"]), row["units"]) for row in rows} for rows in reported)
    assert by_hour == by_day == by_pace
    return by_day
