"""Input files, looked at one by one: what is wrong with them is counted and said, never silently zero."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipeline.charges import Request, compute
from pipeline.errors import InputError
from pipeline.schemas import USAGE
from pipeline.sources import list_month, parse_schema
from tests.pipeline.conftest import TYPES, Write, write_table
from tests.pipeline.test_charges_on_spark import OCTOBER, PRICES, computed, invoice_of, record

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
    listing = list_month(spark, str(usage / "usage"), OCTOBER, USAGE)
    assert [Path(file.path).name for file in listing.files] == ["good.parquet"]
    assert {Path(file.path).name: file.reason for file in listing.rejected} == {
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
    good = [record(f"good-{n}", units=1_000) for n in range(200)]
    bad: list[dict[str, Any]] = [
        record("null", entity=None),
        record("kind", kind="teleport"),
        record("negative", operations=-1),
        record("few units", messages=5, units=2),
        record("size", bytes=2**62),
        record("second", OCTOBER.start + timedelta(seconds=1)),
    ]
    write(good + bad, USAGE)
    write_table(usage / DAY / "wrong-day.parquet", [record("day", OCTOBER.start + timedelta(days=1))], USAGE)
    outcome = computed(spark, usage)
    assert outcome.counts.reasons == {
        "entity is missing": 1,
        "the kind is unknown": 1,
        "operations is negative": 1,
        "billing_units is less than messages": 1,
        "bytes is more than the messages can hold": 1,
        "the minute is not a whole minute": 1,
        "the minute is not of the folder's day": 1,
    }
    assert (outcome.counts.read, outcome.counts.accepted, outcome.counts.quarantined) == (207, 200, 7)
    assert outcome.counts.adds_up
    examples = {(row["record_id"], Path(row["file"]).name, row["reason"]) for row in outcome.counts.examples}
    assert ("day", "wrong-day.parquet", "the minute is not of the folder's day") in examples
    assert invoice_of(outcome).units == 200_000


def test_a_clock_that_runs_ahead_is_noticed_in_the_running_month(
    spark: SparkSession, usage: Path, write: Write
) -> None:
    now = OCTOBER.start + timedelta(days=3)
    write([record(f"a{n}") for n in range(30)] + [record("b", now + timedelta(days=1))], USAGE)
    outcome = compute(spark, Request(month=OCTOBER, usage=str(usage), prices=PRICES), now)
    assert outcome.counts.reasons == {"the minute lies in the future": 1}


@pytest.mark.parametrize("unusable", ["rows", "files"])
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


def test_a_flipped_byte_is_no_silently_wrong_sum(spark: SparkSession, usage: Path) -> None:
    path = usage / DAY / "a.parquet"
    path.parent.mkdir(parents=True)
    schema = pa.schema([(name, TYPES[kind]) for name, kind in USAGE.items()])
    table = pa.Table.from_pylist([record(f"a{n}", units=7_777_777 + n) for n in range(100)], schema)
    pq.write_table(table, path, compression="none", use_dictionary=False, write_page_checksum=True)
    content = bytearray(path.read_bytes())
    place = content.rindex((7_777_777 + 50).to_bytes(8, "little"))
    content[place] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(Exception, match=r"could not verify page integrity|CRC"):
        computed(spark, usage)


def test_times_in_milliseconds_and_nanoseconds_are_read(spark: SparkSession, usage: Path) -> None:
    last = datetime(2026, 10, 31, 23, 59, tzinfo=UTC)
    for unit in ("ms", "us", "ns"):
        types = TYPES | {"timestamp": pa.timestamp(unit, tz="UTC")}
        schema = pa.schema([(name, types[kind]) for name, kind in USAGE.items()])
        path = usage / "usage" / "date=2026-10-31" / f"{unit}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist([record(unit, last, units=5)], schema), path)
    assert invoice_of(computed(spark, usage)).units == 15


def test_the_printed_schema_of_a_file_is_understood() -> None:
    text = """message schema {
      required binary record_id (STRING) = 1;
      optional int64 minute (TIMESTAMP(MICROS,true));
      optional int32 seq (INTEGER(32,true));
      optional fixed_len_byte_array(16) other;
    }"""
    assert parse_schema(text) == {
        "record_id": ("binary", "STRING"),
        "minute": ("int64", "TIMESTAMP(MICROS,true)"),
        "seq": ("int32", "INTEGER(32,true)"),
        "other": ("fixed_len_byte_array", ""),
    }
