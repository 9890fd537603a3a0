"""Months with very many rows of the report: their size is known before Spark starts, and their cents are exact."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import timedelta
from fractions import Fraction
from math import floor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from pipeline import results, transforms
from pipeline import spark as session
from pipeline.allocation import largest_remainder, round_half_up
from pipeline.amounts import Amount, of_month, rows_in
from pipeline.invoice import Line
from pipeline.price_tiers import UnitPrices
from pipeline.results import decimal_text, line_of
from pipeline.schemas import USAGE
from pipeline.spark import FOR_LITTLE_DATA, INTERPRETED, OF_LOCAL_FILES, settings_for
from tests.pipeline.conftest import Write
from tests.pipeline.test_charges_on_spark import OCTOBER, computed, record

MONTH = "2026-10"


def put(folder: Path, day: str, name: str, rows: int, columns: int = 1) -> Path:
    """A file of a few bytes, however many rows it has."""
    path = folder / "usage" / f"date={day}" / f"{name}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({f"column{n}": pa.nulls(rows) for n in range(columns)}), path)
    return path


def test_a_footer_says_how_many_rows_a_file_has(tmp_path: Path) -> None:
    assert rows_in(put(tmp_path, "2026-10-01", "a", 3_000_000)) == 3_000_000


@pytest.mark.parametrize("content", [b"", b"x" * 90, b"\x19\xfc" * 40 + b"\x50\0\0\0PAR1"])
def test_a_file_whose_footer_cannot_be_read_has_no_known_rows(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "damaged.parquet"
    path.write_bytes(content)
    assert rows_in(path) == 0


def test_the_rows_of_a_day_follow_from_its_largest_file(tmp_path: Path) -> None:
    large = put(tmp_path, "2026-10-01", "large", 1_000, columns=9)
    small = put(tmp_path, "2026-10-01", "small", 10)
    put(tmp_path, "2026-11-01", "of another month", 10)
    (large.parent / "merged-meanwhile.parquet").symlink_to(tmp_path / "nowhere")
    sizes = [file.stat().st_size for file in (large, small)]
    assert of_month(str(tmp_path), MONTH) == Amount(sum(sizes), 1_000 * sum(sizes) // sizes[0])


def test_many_rows_are_not_little_data_however_few_bytes_they_take(tmp_path: Path) -> None:
    put(tmp_path, "2026-10-01", "a", session.TINY_ROWS - 1)
    assert settings_for(str(tmp_path), MONTH) == OF_LOCAL_FILES | FOR_LITTLE_DATA | INTERPRETED
    put(tmp_path, "2026-10-02", "b", session.TINY_ROWS)
    assert settings_for(str(tmp_path), MONTH) == OF_LOCAL_FILES | FOR_LITTLE_DATA
    put(tmp_path, "2026-10-03", "c", session.LITTLE_ROWS)
    assert settings_for(str(tmp_path), MONTH) == OF_LOCAL_FILES


PARTS = st.fractions(0, 1_000, max_denominator=10**30)


@given(st.lists(PARTS, min_size=1, max_size=9), st.sampled_from([1, 100]))
def test_the_missing_cents_go_to_the_largest_remainders_by_name_where_they_are_equal(
    amounts: list[Fraction], parts: int
) -> None:
    shares = {(str(n),): amount for n, amount in enumerate([*amounts, amounts[0]])}
    whole = round_half_up(sum(shares.values(), Fraction(0)) * parts)
    expected = {key: floor(share * parts) for key, share in shares.items()}
    by_remainder = sorted(shares, key=lambda key: (expected[key] - shares[key] * parts, key))
    for key in by_remainder[: whole - sum(expected.values())]:
        expected[key] += 1
    assert largest_remainder(whole, shares, parts) == expected


@given(st.lists(st.tuples(PARTS, st.integers(0, 10**30)), min_size=1, max_size=6))
def test_prices_of_units_are_exact(places: list[tuple[Fraction, int]]) -> None:
    prices, units = zip(*places, strict=True)
    assert UnitPrices.of(prices).price_of(units) == sum(price * count for price, count in places)


NAMES = st.text(max_size=20)
WHOLE = st.integers(0, 10**18)


@given(NAMES, NAMES, WHOLE, WHOLE, PARTS)
def test_a_line_is_written_as_any_other_record(
    namespace: str, entity: str, size: int, units: int, exact: Fraction
) -> None:
    line = Line(
        namespace=namespace,
        entity=entity,
        kind="send",
        bytes=size,
        units=units,
        quantity=units,
        exact=exact,
        tiers=(units, 0),
    )
    record = {"record": "line", **asdict(line), "quantity": decimal_text(Fraction(units)), "exact": decimal_text(exact)}
    written = results._line(line, results._quoted)
    assert json.loads(written) == json.loads(line_of(record))
    assert written.endswith("}\n")
    assert written.count("\n") == 1


@pytest.mark.spark
@pytest.mark.parametrize("bad", [0, 1, 2], ids=["all rows are good", "a row is quarantined", "and one without an id"])
def test_a_month_in_which_sums_by_hour_are_as_many_as_rows_is_priced_from_the_rows(
    spark: SparkSession, usage: Path, write: Write, monkeypatch: pytest.MonkeyPatch, bad: int
) -> None:
    rows = [
        record(
            f"{n}", OCTOBER.start + timedelta(hours=7 * n), entity=f"orders/{n}", units=900_000 * n, scope=f"{n % 2}"
        )
        for n in range(9)
    ]
    again = [rows[5] | {"seq": 2, "kind": "settle"}, rows[8], rows[7] | {"seq": 2, "billing_units": 15_000_000}]
    unbilled = [rows[4] | {"record_id": "bad", "bytes": -1}, rows[6] | {"record_id": None}][:bad]
    write(rows + again + unbilled, USAGE)
    summed = computed(spark, usage, max_quarantined=Fraction(1, 5))
    monkeypatch.setattr(transforms, "FEW", 0)
    monkeypatch.delattr(transforms, "hourly_without_copies")
    assert computed(spark, usage, max_quarantined=Fraction(1, 5)) == summed
    assert summed.counts.quarantined == bad
