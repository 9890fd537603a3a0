"""Damaged and foreign files: each is counted whole, left out with a reason, or named by the error that ends the run."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipeline.results import write_results
from pipeline.schemas import CONNECTIONS, USAGE
from tests.pipeline.conftest import TYPES, write_table
from tests.pipeline.test_charges_on_spark import OCTOBER, PRICES, computed, record

pytestmark = pytest.mark.spark
DAY = "date=2026-10-01"
SCHEMA = pa.schema([(name, TYPES[kind]) for name, kind in USAGE.items()])
ROWS = 30


def rows(name: str, count: int = ROWS, **fields: Any) -> list[dict[str, Any]]:
    return [record(f"{name}-{n}", units=1, **fields) for n in range(count)]


@pytest.fixture
def day(usage: Path) -> Path:
    folder = usage / "usage" / DAY
    folder.mkdir(parents=True)
    return folder


def test_foreign_files_and_rows_are_counted_and_the_rest_is_billed(spark: SparkSession, usage: Path, day: Path) -> None:
    write_table(day / "good.parquet", rows("good", 200), USAGE)
    for codec in ("gzip", "zstd", "lz4", "none"):
        pq.write_table(pa.Table.from_pylist(rows(codec), SCHEMA), day / f"{codec}.parquet", compression=codec)
    write_table(day / "without-rows.parquet", [], USAGE)
    write_table(day / "more-columns.parquet", [row | {"more": "x"} for row in rows("more")], USAGE | {"more": "string"})
    backwards = dict(reversed(USAGE.items()))
    write_table(day / "backwards.parquet", rows("backwards"), backwards)
    nothing: dict[str, Any] = dict.fromkeys(USAGE)
    write_table(day / "nulls.parquet", [nothing] * 3, USAGE)
    write_table(day / "huge.parquet", [record("huge", entity="x" * 2_000_000), record("pair", pair="p" * 64)], USAGE)
    odd = [record("odd", entity="sp\u00e4t \u2028\x00 'q' \"; --"), record("empty", entity="")]
    write_table(day / "odd.parquet", odd, USAGE)
    inside = pa.array([{"x": 1}] * ROWS, pa.struct([("x", pa.int64())]))
    first = pa.Table.from_pylist(rows("first"), SCHEMA).add_column(0, "extra-info", inside)
    pq.write_table(first, day / "first.parquet")
    for name, kind in {
        "nested": pa.struct([("x", pa.int64())]), "list": pa.list_(pa.string()), "decimal": pa.decimal128(20, 2),
        "float": pa.float64(), "unsigned": pa.uint64(), "map": pa.map_(pa.string(), pa.string()), "date": pa.date32(),
    }.items():  # fmt: skip
        column = "scope" if name in ("nested", "list", "map") else "operations"
        foreign = pa.schema([(each.name, kind if each.name == column else each.type) for each in SCHEMA])
        empty = pa.Table.from_pylist([{each.name: None for each in foreign}], foreign)
        pq.write_table(empty, day / f"{name}.parquet")
    (day / "script.parquet").write_text("<html>Sign in</html>")

    for unit in ("ms", "us", "ns"):
        times = pa.schema([(name, TYPES[kind]) for name, kind in USAGE.items() if kind != "timestamp"])
        times = times.insert(1, pa.field("minute", pa.timestamp(unit, tz="UTC")))
        late = usage / "usage" / "date=2026-10-31" / f"{unit}.parquet"
        late.parent.mkdir(exist_ok=True)
        minute = datetime(2026, 10, 31, 23, 59, tzinfo=UTC)
        pq.write_table(pa.Table.from_pylist(rows(unit, minute=minute), times), late)

    outcome = computed(spark, usage, max_quarantined=1)

    counts = outcome.counts
    rejected = {Path(path).stem: reason for path, reason in counts.rejected}
    assert set(rejected) == {"nested", "list", "decimal", "float", "unsigned", "map", "date", "script"}
    assert counts.reasons == {"record_id is missing": 3, "entity is too long": 1, "pair is too long": 1}
    assert (counts.read, counts.accepted) == (200 + 10 * ROWS + 3 + 2 + 2, 200 + 10 * ROWS + 2)
    assert (
        sum(invoice.invoice.units for invoice in outcome.priced if invoice.invoice.rule == "published")
        == counts.accepted
    )
    result = usage / "result.jsonl"
    write_results(result, {}, PRICES, outcome)
    assert "\\u0000" not in result.read_text(), "a database that takes no zero bytes takes the result"


def odd_files(day: Path) -> dict[str, str]:
    """Writes files that Spark would fail at; returns the name of each with a part of the reason it is left out for."""
    table = pa.Table.from_pylist(rows("odd"), SCHEMA)
    pq.write_table(table, day / "brotli.parquet", compression="brotli")
    pq.write_table(table.append_column("Minute", table["minute"]), day / "twice.parquet")
    names = {name: f"has {' '.join(odd)} in its name" for name, odd in {
        "x{a,b}[1].parquet": "[]{}", "x:1#2.parquet": ":", "b\\c.parquet": "\\", "*?.parquet": "*?",
    }.items()}  # fmt: skip
    for name in names:
        pq.write_table(table, day / name)
    pq.write_table(table, day / "latin.parquet")
    os.rename(day / "latin.parquet", bytes(day) + b"/gr\xf6\xdfe.parquet")
    pq.write_table(table, day / "flip ped%20.parquet", write_page_checksum=True)
    flipped = bytearray((day / "flip ped%20.parquet").read_bytes())
    flipped[40] ^= 1
    (day / "flip ped%20.parquet").write_bytes(flipped)
    return names | {
        "brotli.parquet": "is damaged",
        "twice.parquet": "has the column minute more than once (Minute, minute)",
        "flip ped%20.parquet": "is damaged",
        "gr\\udcf6\\udcdfe.parquet": "has a name that is not UTF-8: rename it",
    }


def odd_rows(day: Path) -> dict[str, int]:
    """Writes rows that no database stores, or stores as one; returns how many are quarantined, by reason."""
    for number, name in enumerate((b"x\xff", b"x\xfe")):
        table = pa.Table.from_pylist(rows(f"cut-{number}", 1), SCHEMA)
        names = pa.array([name], pa.binary())
        pq.write_table(
            table.set_column(table.schema.get_field_index("entity"), "entity", names), day / f"{number}.parquet"
        )
    zeros = [record("z1", entity="z\0"), record("z2", entity="z\ufffd"), record("z3", namespace="z\0")]
    literal = [record("a\\u0000b", units=-1), record("a\\u0000c", entity="lit\\u0000eral")]
    write_table(day / "zeros.parquet", zeros + literal, USAGE)
    peak = {"hour": OCTOBER.start, "scope": "sub", "namespace": "contoso", "peak": 3}
    wide = [peak, peak | {"namespace": "n" * 300}, peak | {"scope": "s" * 300}, peak | {"scope": "s\0"}]
    write_table(day.parent.parent / "connections" / DAY / "wide.parquet", wide, CONNECTIONS)
    return {
        "entity is not valid UTF-8": 2,
        "namespace contains a zero byte": 1,
        "operations is negative": 1,
        "connections: namespace is too long": 1,
        "connections: scope is too long": 1,
        "connections: scope contains a zero byte": 1,
    }


def test_what_cannot_be_read_or_stored_is_left_out_and_the_month_is_billed(
    spark: SparkSession, usage: Path, day: Path
) -> None:
    write_table(day / "good.parquet", rows("good", 200), USAGE)
    write_table(day / "also#good%20 one.parquet", rows("also"), USAGE)
    files, quarantined = odd_files(day), odd_rows(day)
    outcome = computed(spark, usage, max_quarantined=1)

    rejected = {Path(path).name: reason for path, reason in outcome.counts.rejected}
    assert rejected.keys() == files.keys()
    assert all(files[name] in reason for name, reason in rejected.items()), rejected
    assert outcome.counts.reasons == quarantined
    published = next(each.invoice for each in outcome.priced if each.invoice.rule == "published")
    assert {line.entity: line.units for line in published.lines if line.kind == "send"} == {
        "orders": 200 + ROWS, "z\ufffd": 2, "lit\\u0000eral": 1,
    }  # fmt: skip
    result = usage / "result.jsonl"
    write_results(result, {}, PRICES, outcome)
    records = [json.loads(line) for line in result.read_text().splitlines()]
    assert {"a\\u0000b", "lit\\u0000eral"} <= {
        *(row["record_id"] for row in records[0]["counts"]["examples"]),
        *(row.get("entity") for row in records),
    }
