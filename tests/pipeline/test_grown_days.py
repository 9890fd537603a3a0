"""What is read again of a day that grew, and of the files that it has (docs/costs.md, "Duplicates")."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from pipeline import folders, kept
from pipeline.schemas import USAGE
from pipeline.sources import Listing, list_month, read_files
from tests.pipeline.conftest import TYPES, Write, write_table
from tests.pipeline.test_charges_on_spark import OCTOBER, computed, record
from tests.pipeline.test_days_apart import FIRST, OTHERS, of, own_id

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
LATER, NEXT_DAY = FIRST + timedelta(minutes=5), FIRST + timedelta(days=1)
EARLY, LATE = of(own_id(FIRST), FIRST, units=7), of(own_id(LATER), LATER, units=70)
TWIN = of(own_id(NEXT_DAY), NEXT_DAY, units=7)
BY_ANOTHER = of(OTHERS, LATER, units=70)
GROWN = {
    "a correction of the library": (LATE, of(own_id(FIRST), FIRST, seq=2, units=5), 2),
    "a correction by another writer, in another minute": (BY_ANOTHER, of(OTHERS, FIRST, seq=2, units=5), 3),
    "the library's id in another minute": (LATE, of(own_id(LATER), FIRST, seq=2, units=5), 3),
    "a correction of the library beside another writer": (BY_ANOTHER, of(own_id(FIRST), FIRST, seq=2, units=5), 3),
}
IN_EVERY_RUN = "a correction of the library"


def write_twins(usage: Path, *rows: dict[str, Any]) -> None:
    """Each row into a file of its day; the files have the same name, size and time."""
    files = [usage / "usage" / f"date={row['minute']:%Y-%m-%d}" / "same.parquet" for row in rows]
    for file, row in zip(files, rows, strict=True):
        write_table(file, [row], USAGE)
        os.utime(file, (1_000_000_000, 1_000_000_000))
    assert len({file.stat().st_size for file in files}) == 1


@pytest.mark.parametrize(
    ("before", "after", "files"),
    [
        pytest.param(*case, id=name, marks=[] if name == IN_EVERY_RUN else [pytest.mark.nightly])
        for name, case in GROWN.items()
    ],
)
def test_of_days_that_grew_new_footers_are_read_and_the_files_that_can_share_an_id_with_a_new_row(
    spark: SparkSession,
    usage: Path,
    write: Write,
    monkeypatch: pytest.MonkeyPatch,
    before: dict[str, Any],
    after: dict[str, Any],
    files: int,
) -> None:
    write_twins(usage, EARLY, TWIN)
    write([before], USAGE)
    computed(spark, usage, incremental=True)
    write([after, of(own_id(NEXT_DAY), NEXT_DAY, seq=2, units=5)], USAGE)
    read_again: list[int] = []
    footers: list[str] = []
    footer = folders.Footers.read

    def noted(spark: SparkSession, listing: Listing, columns: dict[str, str]) -> DataFrame:
        read_again.append(len(listing.files))
        return read_files(spark, listing, columns)

    def asked(kept_footers: folders.Footers, path: str, column: str, note: str) -> folders.Footer:
        footers.append(Path(path).name)
        return footer(kept_footers, path, column, note)

    monkeypatch.setattr(kept, "read_files", noted)
    monkeypatch.setattr(folders.Footers, "read", asked)
    outcome = computed(spark, usage, incremental=True)

    assert (read_again, sorted(footers)) == ([files], ["1.parquet", "2.parquet"])
    assert outcome == computed(spark, usage)
    assert (outcome.counts.accepted, outcome.counts.copies) == (3, 2)


FRACTIONS = {"ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
"""Of a second."""


@pytest.mark.parametrize("unit", FRACTIONS)
def test_the_first_and_last_minute_of_a_file_are_those_of_its_rows(spark: SparkSession, usage: Path, unit: str) -> None:
    day = usage / "usage" / "date=2026-10-01"
    day.mkdir(parents=True)
    schema = pa.schema([(name, TYPES[kind]) for name, kind in USAGE.items()])
    table = pa.Table.from_pylist([record(f"{n}", minute) for n, minute in enumerate((LATER, FIRST))], schema)
    minutes = table["minute"].cast(pa.timestamp(unit, tz="UTC"))
    table = table.set_column(table.schema.get_field_index("minute"), "minute", minutes)
    nested = pa.array([{"x": 1, "y": 2}] * 2)
    pq.write_table(table, day / "plain.parquet")
    pq.write_table(table.add_column(0, "first", nested), day / "after-a-nested-column.parquet")
    pq.write_table(table, day / "two-groups.parquet", row_group_size=1)
    pq.write_table(table, day / "without-statistics.parquet", write_statistics=False)
    pq.write_table(table, day / "int96.parquet", use_deprecated_int96_timestamps=True)

    flipped = (day / "plain.parquet").read_bytes()
    last = int(LATER.timestamp() * FRACTIONS[unit]).to_bytes(8, "little")
    assert last in flipped
    (day / "of-another-day.parquet").write_bytes(flipped.replace(last, last[:6] + bytes([last[6] ^ 1]) + last[7:]))

    listing = list_month(spark, str(usage / "usage"), OCTOBER, USAGE)

    span = {Path(file.path).stem: (file.first, file.last) for file in listing.files}
    without = ("after-a-nested-column", "two-groups", "without-statistics", "int96", "of-another-day")
    unknown = dict.fromkeys(without, (None, None))
    micros = tuple(int(minute.timestamp()) * 1_000_000 for minute in (FIRST, LATER))
    assert span == {"plain": micros} | unknown
    assert not listing.rejected


def test_a_file_that_is_deleted_while_its_folder_is_listed_is_left_out(
    spark: SparkSession, usage: Path, write: Write
) -> None:
    """The compaction deletes small files. A link that leads nowhere is what such a file is for the one who looks."""
    write([EARLY], USAGE)
    (usage / "usage" / "date=2026-10-01" / "gone.parquet").symlink_to(usage / "nowhere")
    listing = list_month(spark, str(usage / "usage"), OCTOBER, USAGE)
    assert [Path(file.path).name for file in listing.files] == ["0.parquet"]
    assert not listing.rejected


def test_a_folder_on_this_machine_is_listed_as_hadoop_lists_it(spark: SparkSession, usage: Path, write: Write) -> None:
    write([EARLY, LATE, of("b", FIRST + timedelta(days=1))], USAGE)
    (usage / "usage" / "file with a space").write_text("x")
    for folder in (usage / "usage", usage / "usage" / "date=2026-10-01"):
        own = folders.children(spark, str(folder))
        of_hadoop = sorted(folders._stored(spark, f"file://{folder}"), key=lambda child: child.name)
        assert [each.path for each in own] == [each.path.removeprefix("file:") for each in of_hadoop]
        files = [[(each.name, each.is_folder, each.size, each.modified_ms) for each in found if not each.is_folder]
                 for found in (own, of_hadoop)]  # fmt: skip
        assert files[0] == files[1]
        assert [each.is_folder for each in own] == [each.is_folder for each in of_hadoop]
    missing = f"file://{usage}/missing"
    assert folders.children(spark, missing) == folders._stored(spark, missing) == []
