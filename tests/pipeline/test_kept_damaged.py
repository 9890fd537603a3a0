"""Sums that were kept and are no longer as they were written are made again: they are never believed, nor reported."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline.charges import Request, compute_readable
from pipeline.jobs.charges import SAMPLE_PRICES
from pipeline.months import Month
from pipeline.prices import read_prices
from pipeline.results import Priced
from pipeline.schemas import KEPT_SHAPE, USAGE
from tests.pipeline.conftest import Write, write_table
from tests.pipeline.test_charges_on_spark import record

pytestmark = pytest.mark.spark
OCTOBER = Month.parse("2026-10")
PRICES = read_prices(SAMPLE_PRICES, OCTOBER)
FIRST = OCTOBER.start.replace(hour=3)
NOW = datetime(2026, 11, 20, tzinfo=UTC)
MILLION = 1_000_000
KEPT = (
    "date=2026-10-01",
    "_brief/date=2026-10-01",
    "_minutes/2026-10-hours/date=2026-10-01",
    "_strays/date=2026-10-01",
)


def empty(file: Path) -> None:
    """As a power failure leaves a file whose content was not on the disk yet."""
    file.write_bytes(b"")
    file.with_name(f".{file.name}.crc").unlink()


def cut_off(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-40])
    file.with_name(f".{file.name}.crc").unlink()


def flip_a_byte(file: Path) -> None:
    """The size and time stay: only reading it shows the damage."""
    found, content = file.stat(), bytearray(file.read_bytes())
    content[30] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))


def remove(file: Path) -> None:
    shutil.rmtree(file.parent)


DAMAGE = [
    *((place, empty) for place in KEPT[1:]),
    (KEPT[0], flip_a_byte),
    pytest.param(KEPT[0], empty, marks=pytest.mark.nightly),
    *(pytest.param(place, cut_off, marks=pytest.mark.nightly) for place in KEPT),
    *(pytest.param(place, remove, marks=pytest.mark.nightly) for place in KEPT),
    *(pytest.param(place, flip_a_byte, marks=pytest.mark.nightly) for place in KEPT[1:]),
]


def computed(spark: SparkSession, usage: Path, *, incremental: bool) -> tuple[int, tuple[Priced, ...]]:
    request = Request(month=OCTOBER, usage=str(usage), prices=PRICES, incremental=incremental)
    outcome = compute_readable(spark, request, NOW)
    return outcome.counts.accepted, outcome.priced


BEFORE = [record("other", FIRST, units=14 * MILLION), record("b", FIRST + timedelta(hours=2), units=9)]
"""The first day has a tier that begins, and the id of another writer, whose correction comes on another day."""
LATER = [record("other", FIRST + timedelta(days=1), units=3 * MILLION, seq=2)]


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, tuple[Priced, ...]]:
    """What a full run finds in the month."""
    usage = tmp_path_factory.mktemp("whole")
    for number, rows in enumerate((BEFORE, LATER)):
        write_table(usage / "usage" / f"date={rows[0]['minute']:%Y-%m-%d}" / f"{number}.parquet", rows, USAGE)
    return computed(spark, usage, incremental=False)


@pytest.mark.parametrize(("place", "damage"), DAMAGE)
def test_a_month_whose_kept_sums_are_damaged_has_the_charges_of_a_full_run(
    spark: SparkSession,
    usage: Path,
    write: Write,
    whole: tuple[int, tuple[Priced, ...]],
    place: str,
    damage: Callable[[Path], None],
) -> None:
    write(BEFORE, USAGE)
    computed(spark, usage, incremental=True)
    (kept,) = (usage / "hourly" / place).glob("*.parquet")
    damage(kept)
    write(LATER, USAGE)

    assert computed(spark, usage, incremental=True) == whole


def test_notes_of_another_form_are_no_notes(spark: SparkSession, usage: Path, write: Write) -> None:
    forms = [5, {}, {"shape": KEPT_SHAPE}, {"shape": KEPT_SHAPE, "fingerprint": "x", "marks": 3}]
    write([record(f"{day}", FIRST + timedelta(days=day), units=5) for day in range(len(forms))], USAGE)
    (usage / "hourly").mkdir()
    notes = {f"2026-10-0{day + 1}": form for day, form in enumerate(forms)}
    (usage / "hourly" / "_2026-10.json").write_text(json.dumps(notes))

    assert computed(spark, usage, incremental=True) == computed(spark, usage, incremental=False)


def test_records_that_were_accepted_before_their_month_began_are_judged_again(
    spark: SparkSession, usage: Path, write: Write
) -> None:
    """In a future month no minute is refused as being in the future."""
    write([record("a", FIRST, units=5), record("b", FIRST + timedelta(days=24), units=7)], USAGE)
    accepted = []
    for now in (OCTOBER.start - timedelta(days=1), OCTOBER.start + timedelta(days=1)):
        request = Request(month=OCTOBER, usage=str(usage), prices=PRICES, incremental=True, max_quarantined=Fraction(1))
        accepted.append(compute_readable(spark, request, now).counts.accepted)

    assert accepted == [2, 1]
