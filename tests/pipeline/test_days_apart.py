"""One id on two days counts once, in a full run and in an incremental one (docs/contract.md, section 5)."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline import hourly
from pipeline.charges import Request, compute
from pipeline.schemas import USAGE
from pipeline.strays import is_stray
from tests.pipeline.conftest import Write, frame_of
from tests.pipeline.test_charges_on_spark import MILLION, NOW, OCTOBER, PRICES, computed, record

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
FIRST, SECOND, THIRD = (OCTOBER.start + timedelta(days=n, hours=3) for n in (0, 1, 8))
OTHERS = "another-writer-1"


def own_id(minute: datetime, kind: str = "send") -> str:
    """An id as the library makes it."""
    return f"contoso/host:4711:0123abcd/{minute:%Y%m%dT%H%M}/{kind}/contoso/orders"


def of(record_id: str, minute: datetime, seq: int = 1, units: int = MILLION) -> dict[str, Any]:
    return record(record_id, minute, units=units) | {"seq": seq}


DAYS = [of(own_id(minute), minute) for minute in (FIRST, SECOND, THIRD)]
BACKWARDS = "another writer's id comes again for the day before"
SHARED = {
    "another writer's id comes again a day later": (of(OTHERS, FIRST), of(OTHERS, SECOND, seq=2, units=5)),
    BACKWARDS: (of(OTHERS, SECOND), of(OTHERS, FIRST, seq=2, units=5)),
    "an id of the library's form comes with another day": (DAYS[0], of(own_id(FIRST), SECOND, seq=2, units=5)),
    "it comes with another day first": (of(own_id(SECOND), FIRST), of(own_id(SECOND), SECOND, seq=2, units=5)),
}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(*rows, id=name, marks=[] if name == BACKWARDS else [pytest.mark.nightly])
        for name, rows in SHARED.items()
    ],
)
def test_one_id_on_two_days_counts_once_whenever_it_comes(
    spark: SparkSession, usage: Path, write: Write, before: dict[str, Any], after: dict[str, Any]
) -> None:
    write([of(own_id(THIRD), THIRD), before], USAGE)
    assert computed(spark, usage, incremental=True) == computed(spark, usage)
    write([after], USAGE)

    outcome = computed(spark, usage, incremental=True)

    assert outcome == computed(spark, usage)
    assert (outcome.counts.accepted, outcome.counts.copies) == (2, 1)
    assert sum(row.operations for row in outcome.priced[0].invoice.lines) == MILLION + 5


@pytest.mark.nightly
def test_days_that_share_nothing_are_kept_again_once_the_shared_record_is_gone(
    spark: SparkSession, usage: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write([*DAYS, of(OTHERS, FIRST)], USAGE)
    computed(spark, usage, incremental=True)
    known = set((usage / "usage").rglob("*.parquet"))
    write([of(OTHERS, SECOND, seq=2)], USAGE)
    for _ in range(2):  # also where nothing has changed since
        assert computed(spark, usage, incremental=True) == computed(spark, usage)
    for file in set((usage / "usage").rglob("*.parquet")) - known:
        file.unlink()
    after = computed(spark, usage, incremental=True)
    assert after == computed(spark, usage)

    monkeypatch.setattr(hourly, "read_files", None)  # no row is looked at again
    request = Request(month=OCTOBER, usage=str(usage), prices=PRICES, incremental=True)
    assert compute(spark, request, NOW) == after


def test_no_id_names_two_days(spark: SparkSession, tmp_path: Path) -> None:
    ids = [
        *(own_id(minute) for minute in (FIRST, SECOND)),
        f"contoso/20261001T0300/20261002T0300/{own_id(FIRST)}",
        "a/b/20261001T0300",
        "20261001T0300/20261002T0300/x",
        "a//20261001T0300/20261002T0300",
        "a/b/c20261001T0300/d",
        "a/b/20261001",
        "/",
        "",
        OTHERS,
    ]
    rows = [record(one, minute) | {"date": f"{minute:%Y-%m-%d}"} for one in ids for minute in (FIRST, SECOND)]
    frame = frame_of(spark, tmp_path / "rows.parquet", rows)
    named = frame.where(~is_stray()).select("record_id", "date").collect()
    days = [row["record_id"] for row in named]
    assert len(days) == len(set(days))
    assert {(row["record_id"], row["date"]) for row in named} >= {
        (own_id(FIRST), "2026-10-01"),
        (own_id(SECOND), "2026-10-02"),
    }
