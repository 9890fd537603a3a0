"""Sums by minute that are kept: which days are computed, and what a change, a kill or damage does to those kept."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from pipeline import transforms
from pipeline.minutes import MinuteStore, Wanted, of_hours, of_kinds
from tests.pipeline.conftest import frame_of
from tests.pipeline.test_charges_on_spark import OCTOBER, record

pytestmark = pytest.mark.spark
FIRST, SECOND, THIRD = DAYS = ("2026-10-01", "2026-10-02", "2026-10-03")
START = int(OCTOBER.start.timestamp())
HOURS = (START, START + 3_600, START + 86_400)  # two of the first day, one of the second


class Month:
    """A month's rows, one of each day's each hour, with the days that were computed from them in turn."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.units = dict.fromkeys(DAYS, 1)
        self.looks: list[list[str]] = []

    def get(self, wanted: Wanted) -> dict[tuple[str, int], int]:
        """The units by day and minute. A day with 0 may differ tomorrow."""
        fingerprints = {day: f"{day} {units}" if units else "" for day, units in self.units.items()}
        kept = MinuteStore(self.spark, str(self.folder), OCTOBER, fingerprints).get(wanted, self.compute)
        columns = kept.selectExpr("date", "unix_seconds(minute) as at", "billing_units as units")
        return {(row["date"], row["at"]): row["units"] for row in columns.collect()}

    def compute(self, wanted: Wanted) -> DataFrame:
        self.looks.append(sorted(wanted.days))
        rows = [
            record(f"{day}-{hour}", begin + timedelta(hours=hour), units=units) | {"date": day}
            for n, (day, units) in enumerate(self.units.items())
            for begin in [OCTOBER.start + timedelta(days=n)]
            for hour in (0, 1)
            if units > 0
        ]
        frame = frame_of(self.spark, self.folder / "rows" / f"{len(self.looks)}.parquet", rows)
        chosen = transforms.with_hour(frame).where(wanted.condition)
        return transforms.by_minute(chosen.where(chosen["date"].isin(*wanted.days)))


@pytest.fixture
def month(spark: SparkSession, tmp_path: Path) -> Month:
    return Month(spark, tmp_path)


def seconds(hours: Sequence[int]) -> dict[tuple[str, int], int]:
    return {(FIRST if hour < START + 86_400 else SECOND, hour): 1 for hour in hours}


def test_a_day_is_computed_once_until_it_or_the_request_changes(month: Month) -> None:
    assert month.get(of_hours(HOURS)) == month.get(of_hours(HOURS)) == seconds(HOURS)
    assert month.looks == [[FIRST, SECOND]]

    month.units[SECOND] = 7
    assert month.get(of_hours(HOURS)) == seconds(HOURS) | {(SECOND, HOURS[2]): 7}
    assert month.looks[1:] == [[SECOND]]

    month.units[SECOND] = 1
    assert month.get(of_hours(HOURS[:1])) == seconds(HOURS[:1])  # the tier begins in one hour alone
    assert month.looks[2:] == [[FIRST]]


def test_a_day_of_which_nothing_is_left_keeps_nothing(month: Month) -> None:
    sends = of_kinds(DAYS, ["send"])
    assert len(month.get(sends)) == 6

    month.units[FIRST] = 0  # and it may differ tomorrow: it is computed each time
    del month.units[THIRD]
    assert {day for day, _ in month.get(sends)} == {day for day, _ in month.get(sends)} == {SECOND}
    assert month.looks[1:] == [[FIRST], [FIRST]]
    assert month.get(of_kinds([THIRD], ["send"])) == {}


def test_what_is_kept_of_hours_and_of_kinds_stands_apart(month: Month) -> None:
    month.get(of_hours(HOURS))
    assert month.get(of_kinds([FIRST], ["ping", "poll"])) == {}
    assert month.get(of_hours(HOURS)) == seconds(HOURS)
    assert month.looks == [[FIRST, SECOND], [FIRST]]


def test_a_run_that_breaks_off_leaves_nothing_that_is_believed(month: Month) -> None:
    month.get(of_hours(HOURS))
    month.units[FIRST] = 5

    def power_fails(_: Wanted) -> DataFrame:
        raise OSError("the power failed")

    with pytest.raises(OSError, match="the power failed"):
        MinuteStore(month.spark, str(month.folder), OCTOBER, {FIRST: "changed"}).get(of_hours(HOURS[:2]), power_fails)
    month.units[FIRST] = 1  # the day looks as before, but its sums were being replaced
    assert month.get(of_hours(HOURS)) == seconds(HOURS)
    assert month.looks == [[FIRST, SECOND], [FIRST]]


@pytest.mark.parametrize("has_checksum", [False, True], ids=["half written", "not what its checksum says"])
def test_notes_that_cannot_be_read_are_no_notes(month: Month, has_checksum: bool) -> None:
    month.get(of_hours(HOURS))
    (notes,) = month.folder.rglob("_2026-10-hours.json")
    notes.write_text(notes.read_text().replace("2026", "2027") if has_checksum else "{half")
    if not has_checksum:
        notes.with_name(f".{notes.name}.crc").unlink()

    assert month.get(of_hours(HOURS)) == seconds(HOURS)
    assert month.looks == [[FIRST, SECOND], [FIRST, SECOND]]
