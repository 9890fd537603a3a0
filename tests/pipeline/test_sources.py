"""Input files, looked at one by one: what is wrong with them is counted and said, never silently zero."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline.charges import compute
from pipeline.errors import InputError
from pipeline.schemas import CONNECTIONS, USAGE
from pipeline.usage.counts import Counts, refuse_too_much
from tests.pipeline.conftest import Write, write_table
from tests.pipeline.test_charges_on_spark import OCTOBER, computed, invoice_of, record, request
from tests.selection import nightly

pytestmark = pytest.mark.spark
DAY = "usage/date=2026-10-01"


def test_files_that_cannot_be_read_are_named_with_the_reason(spark: SparkSession, usage: Path) -> None:
    day = usage / DAY
    write_table(day / "good.parquet", [record("a")], USAGE)
    (day / "empty.parquet").write_bytes(b"")
    (day / "truncated.parquet").write_bytes((day / "good.parquet").read_bytes()[:-20])
    (day / "readme.txt").write_text("hello")
    write_table(day / "lacking.parquet", [{}], {name: kind for name, kind in USAGE.items() if name != "seq"})
    write_table(day / "texts.parquet", [{}], USAGE | {"billing_units": "string"})
    (day / "folder").mkdir()
    (day / "_uploading.parquet").write_bytes(b"half")
    (usage / "usage" / "date=notadate").mkdir()
    (usage / "usage" / "_SUCCESS").touch()
    write_table(usage / "usage" / "stray.parquet", [record("b")], USAGE)
    counts = computed(spark, usage, max_quarantined=1).counts
    assert (counts.accepted, counts.files, counts.files_rejected) == (1, 9, 8)
    assert {Path(path).name: reason for path, reason in counts.rejected} == {
        "empty.parquet": "is empty (0 bytes)",
        "truncated.parquet": "is not Parquet, or is truncated",
        "readme.txt": "is not Parquet, or is truncated",
        "lacking.parquet": "lacks the column seq",
        "texts.parquet": "has the column billing_units as STRING, not as long",
        "folder": "is a folder inside a day",
        "date=notadate": "is not a folder named date=YYYY-MM-DD",
        "stray.parquet": "is not a folder named date=YYYY-MM-DD",
    }


def test_rows_that_cannot_be_billed_are_counted_by_reason_and_the_rest_is_billed(
    spark: SparkSession, usage: Path, write: Write
) -> None:
    good = [record(f"good-{n}", units=1_000) for n in range(400)]
    dearest = record("dearest", operations=1, messages=1, units=1_600)  # a message of 100 MiB
    bad: list[dict[str, Any]] = [
        record("null", entity=None),
        record("kind", kind="teleport"),
        record("negative", operations=-1),
        record("few units", messages=5, units=2),
        record("size", bytes=2**62),
        record("second", OCTOBER.start + timedelta(seconds=1)),
        dearest | {"record_id": "dearer", "billing_units": 1_601},
        *(record(f"wild-{n}", units=2**62) for n in range(2)),  # whose sum no 64 bits hold
        *[record("") | {"record_id": None}] * 2,  # no versions of each other
        record("long", entity="x" * 301),
        record("zero", pair="contoso\0"),
        record("early", entity="early") | {"minute": datetime(1969, 12, 31, tzinfo=UTC)},
        good[7] | {"seq": 2, "kind": "teleport"},  # of two versions, the one that can be billed counts
    ]
    write([*good, *good[:9], dearest], USAGE)
    write_table(usage / DAY / "bad.parquet", bad, USAGE)
    outcome = computed(spark, usage)
    assert outcome.counts.reasons == {
        "entity is missing": 1,
        "the kind is unknown": 2,
        "record_id is missing": 2,
        "entity is too long": 1,
        "pair contains a zero byte": 1,
        "operations is negative": 1,
        "billing_units is less than messages": 1,
        "bytes is more than the messages can hold": 1,
        "the minute is not a whole minute": 1,
        "billing_units is more than the messages can cost": 1,
        "operations is more than a minute can have": 2,
        "the minute lies before 1970": 1,
    }
    assert (outcome.counts.read, outcome.counts.accepted, outcome.counts.quarantined) == (425, 401, 15)
    assert outcome.counts.copies == 9
    examples = {(row["record_id"], Path(row["file"]).name, row["reason"]) for row in outcome.counts.examples}
    assert ("kind", "bad.parquet", "the kind is unknown") in examples
    assert invoice_of(outcome).units == 400_000 + 1_600


def test_a_clock_that_runs_ahead_is_noticed_in_the_running_month(
    spark: SparkSession, usage: Path, write: Write
) -> None:
    now = OCTOBER.start + timedelta(days=3)
    write([record(f"a{n}") for n in range(30)] + [record("b", now + timedelta(days=1))], USAGE)
    outcome = compute(lambda rows: spark, request(usage), now)
    assert outcome.counts.reasons == {"the minute lies in the future": 1}


@pytest.mark.parametrize("unusable", ["rows", *nightly("files")])
def test_nothing_is_published_when_too_much_is_unusable(
    spark: SparkSession, usage: Path, write: Write, unusable: str
) -> None:
    write([record(f"a{n}") for n in range(9)], USAGE)
    if unusable == "rows":
        write([record("bad", kind="teleport")], USAGE)
    else:
        (usage / DAY / "broken.parquet").write_bytes(b"")
    with pytest.raises(InputError, match=r"nothing was published\. .*(the kind is unknown|is empty)"):
        computed(spark, usage)


def peaks(good: int) -> list[dict[str, Any]]:
    """Rows of connections, and one that cannot be."""
    counts = [*range(good), 10**12 + 1]
    return [{"hour": OCTOBER.start, "scope": "sub", "namespace": "contoso", "peak": peak} for peak in counts]


@pytest.mark.parametrize(
    ("counts", "why"),
    [
        (Counts(read=20, quarantined=1, files=9), None),
        (Counts(read=20, quarantined=2, reasons={"too odd": 2}), r"2 of 20 rows.* published\. 2 rows: too odd\."),
        (Counts(read=9, files=20, files_rejected=1), None),
        (
            Counts(read=9, files=20, files_rejected=2, rejected=[("x", "is odd")] * 2),
            r"2 of 20 files.* x is odd; x is odd",
        ),
        (Counts(), None),
    ],
    ids=["few rows", "too many rows", "few files", "too many files", "nothing at all"],
)
def test_rows_and_files_are_each_measured(counts: Counts, why: str | None) -> None:
    expectation = nullcontext() if why is None else pytest.raises(InputError, match=why)
    with expectation:
        refuse_too_much(counts, Fraction(5, 100))


@pytest.mark.parametrize(
    ("of_usage", "good"),
    [
        pytest.param(200, 9, id="too much of connections"),
        pytest.param(0, 39, id="little of them", marks=pytest.mark.nightly),
    ],
)
def test_each_source_is_measured_by_itself(
    spark: SparkSession, usage: Path, write: Write, of_usage: int, good: int
) -> None:
    write([record(f"a{n}") for n in range(of_usage)], USAGE)
    write(peaks(good), CONNECTIONS, "connections")
    if good < 20:
        with pytest.raises(InputError, match=r"1 of 10 rows.* connections: peak is more than a namespace can have"):
            computed(spark, usage)
    else:
        counts = computed(spark, usage).counts
        assert (counts.read, counts.accepted, counts.quarantined) == (40, 39, 1)
