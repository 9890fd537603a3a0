"""What files say of their record_ids saves the search for repeated records, and changes no result."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipeline import transforms
from pipeline.results import Outcome
from pipeline.schemas import NAME_THEIR_MINUTE, ONCE_EACH, USAGE
from pipeline.sources import Listing, SourceFile
from tests.pipeline.conftest import TYPES
from tests.pipeline.test_charges_on_spark import OCTOBER, as_of_many_rows, computed, record
from tests.selection import nightly
from workers.record_ids import with_note

pytestmark = pytest.mark.timeout(900)
SCHEMA = pa.schema([(name, TYPES[kind]) for name, kind in USAGE.items()])
DAYS = [OCTOBER.start + timedelta(days=n) for n in (0, 1, 20)]
Rows = list[dict[str, Any]]


def file(name: str, ids: str, first: int | None, last: int | None, day: str = "2026-10-01") -> SourceFile:
    return SourceFile(name, day, 10, "us", ids, first, last)


@pytest.mark.parametrize(
    ("files", "looked_through"),
    [
        ([file("a", ONCE_EACH, 0, 9), file("b", ONCE_EACH, 10, 19)], ""),
        ([file("a", ONCE_EACH, 0, 10), file("b", ONCE_EACH, 10, 19), file("c", ONCE_EACH, 20, 29)], "ab"),
        ([file("a", ONCE_EACH, 0, 99), file("b", ONCE_EACH, 10, 11), file("c", ONCE_EACH, 98, 98)], "abc"),
        ([file("a", ONCE_EACH, 0, 9), file("b", NAME_THEIR_MINUTE, 10, 19)], "b"),
        ([file("a", ONCE_EACH, 0, 9), file("b", ONCE_EACH, 0, 9, "2026-10-02")], ""),
        (
            [file("a", ONCE_EACH, 0, 9), file("b", ONCE_EACH, None, None), file("c", ONCE_EACH, 0, 9, "2026-10-02")],
            "ab",
        ),
        ([file("a", ONCE_EACH, None, None)], ""),
        ([file("a", ONCE_EACH, 0, 9), file("b", "", 0, 9, "2026-10-02")], "ab"),
        ([], ""),
    ],
)
def test_only_files_that_may_repeat_a_record_are_looked_through(files: list[SourceFile], looked_through: str) -> None:
    found = Listing("", tuple(files), ()).may_repeat
    assert "".join(sorted(each.path for each in found.files)) == looked_through


def own(day: int, minute: int, name: str, **fields: Any) -> dict[str, Any]:
    at = DAYS[day] + timedelta(minutes=minute)
    return record(f"contoso/host:1/{at:%Y%m%dT%H%M}/send/{name}", at, **fields)


def month(random: Random, kind: str) -> list[tuple[int, Rows]]:
    """Files, each with its day: of the library alone, with corrections and repetitions, and with rows of others."""
    files = plain = [
        (day, [own(day, 10 * part + n % 4, f"{n}", units=random.randrange(10**7)) for n in range(12)])
        for day in range(len(DAYS))
        for part in range(3)
    ]
    if kind != "plain":
        for _ in range(4):
            day, rows = random.choice(plain)
            row = random.choice(rows)
            again = [dict(row), row | {"seq": random.choice([0, 2]), "billing_units": random.randrange(10**7)}]
            files = [*files, (day, random.choice([again, again[:1], again[1:]]))]
    if kind == "foreign":
        day, rows = random.choice(plain)
        another_day = (day + 1) % len(DAYS)
        by_hand = record("by hand", DAYS[day])
        foreign = [
            (day, [rows[0] | {"record_id": None}]),
            (another_day, [rows[1] | {"minute": DAYS[another_day]}]),
            (day, [by_hand, by_hand | {"seq": 2, "billing_units": 7}]),
        ]
        files = [*files, *random.sample(foreign, random.randrange(1, 4))]
    return random.sample(files, len(files))


def written(usage: Path, files: list[tuple[int, Rows]], *, noted: bool) -> None:
    shutil.rmtree(usage, ignore_errors=True)
    for number, (day, rows) in enumerate(files):
        place = usage / "usage" / f"date={DAYS[day]:%Y-%m-%d}"
        place.mkdir(parents=True, exist_ok=True)
        table = pa.Table.from_pylist(rows, SCHEMA)
        pq.write_table(with_note(table) if noted else table, place / f"part-{number}.parquet")


@pytest.mark.spark
@pytest.mark.nightly
@pytest.mark.parametrize("are_many", [False, True], ids=["few rows", "many rows"])
@pytest.mark.parametrize("kind", ["plain", "repeated", "foreign"])
@pytest.mark.parametrize("seed", range(4))
def test_a_month_costs_the_same_whatever_its_files_say_of_their_ids(
    spark: SparkSession, usage: Path, monkeypatch: pytest.MonkeyPatch, kind: str, are_many: bool, seed: int
) -> None:
    if are_many:
        as_of_many_rows(monkeypatch)

    def outcome(*, incremental: bool = False) -> Outcome:
        found = computed(spark, usage, incremental=incremental, max_quarantined=1)
        found.counts.examples.clear()  # they name files in any order
        return found

    files = month(Random(seed), kind)
    written(usage, files, noted=False)
    without = outcome()
    written(usage, files, noted=True)
    assert outcome() == without
    written(usage, files[: len(files) // 2], noted=True)
    computed(spark, usage, incremental=True, max_quarantined=1)
    kept = (usage / "hourly").rename(usage.with_name("kept"))
    written(usage, files, noted=True)
    kept.rename(usage / "hourly")
    assert outcome(incremental=True) == without


@pytest.mark.spark
@pytest.mark.parametrize("elsewhere", [True, *nightly(False)], ids=["in another folder", "in the minute"])
def test_a_good_record_counts_although_its_id_is_on_bad_rows_of_a_file_that_is_looked_through(
    spark: SparkSession, usage: Path, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    """Where a tier begins, rows are taken one by one."""
    as_of_many_rows(monkeypatch)
    good = [own(0, 7, f"q{n}", entity=f"q{n}", units=7_000_000) for n in range(3)]
    bad = good[0] if elsewhere else good[0] | {"kind": "teleport"}
    others = [own(1, n, "x") for n in range(80)]
    files = [(0, good), (2 if elsewhere else 0, [bad, bad | {"seq": 2}]), (1, others)]
    written(usage, files, noted=False)
    without = computed(spark, usage)
    written(usage, files, noted=True)
    noted = computed(spark, usage)
    assert noted.priced == without.priced
    assert (noted.counts.accepted, noted.counts.quarantined) == (83, 2)


@pytest.mark.spark
def test_a_note_that_was_passed_on_by_who_merged_files_is_not_believed(spark: SparkSession, usage: Path) -> None:
    rows = [own(0, n, "x") for n in range(3)]
    written(usage, [(0, rows), (0, [rows[0] | {"seq": 2}])], noted=True)
    day = usage / "usage" / "date=2026-10-01"
    files = sorted(day.iterdir())
    merged = pa.concat_tables([pq.ParquetFile(each).read() for each in files])
    assert merged.schema.metadata
    pq.write_table(merged, day / "all.parquet")
    for each in files:
        each.unlink()
    found = computed(spark, usage)
    assert (found.counts.accepted, found.counts.copies) == (3, 1)


@pytest.mark.spark
def test_what_files_say_they_have_once_nobody_looks_for(
    spark: SparkSession, usage: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(transforms, "find_copies")
    written(usage, month(Random(0), "plain"), noted=True)
    assert computed(spark, usage).counts.accepted == 108
    assert computed(spark, usage, incremental=True).counts.accepted == 108
