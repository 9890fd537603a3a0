"""Compaction merges and removes files while a run reads them (docs/costs.md, "Compaction")."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pipeline import folders
from pipeline.charges import Request, compute_readable
from pipeline.folders import Footer, Footers
from pipeline.results import Priced
from pipeline.schemas import USAGE
from tests.pipeline.conftest import write_table
from tests.pipeline.test_charges_on_spark import NOW, OCTOBER, PRICES, computed, record
from tests.selection import nightly
from workers.compaction import compact

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
DAY = "date=2026-10-01"


def collect(usage: Path) -> None:
    """Two files as a collector writes them."""
    for n in range(2):
        write_table(usage / "usage" / DAY / f"part-{n}.parquet", [record(f"r{n}", units=7)], USAGE)


@pytest.fixture
def compaction(usage: Path) -> Callable[[], int]:
    """The two files, and what merges them."""
    collect(usage)
    return lambda: compact(str(usage), NOW)


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Priced, ...]:
    """What the two files cost before they are merged."""
    usage = tmp_path_factory.mktemp("undisturbed")
    collect(usage)
    return computed(spark, usage).priced


@pytest.mark.parametrize("incremental", [*nightly(False), True], ids=["full", "incremental"])
@pytest.mark.parametrize(
    "stage",
    [
        "finding repeated records",
        *(pytest.param(at, marks=pytest.mark.nightly) for at in ("summing by hour", "pricing")),
    ],
)
def test_a_run_counts_each_record_once_whenever_files_are_merged(
    spark: SparkSession,
    usage: Path,
    compaction: Callable[[], int],
    stage: str,
    incremental: bool,
    undisturbed: tuple[Priced, ...],
) -> None:
    request = Request(month=OCTOBER, usage=str(usage), prices=PRICES, incremental=incremental)

    def merge(at: str, share: float, rows: int) -> None:
        if at == stage:
            compaction()

    outcome = compute_readable(spark, request, NOW, merge)
    assert [path.name[:8] for path in (usage / "usage" / DAY).iterdir()] == ["compact-"]
    assert (outcome.counts.accepted, outcome.counts.rejected) == (2, [])
    assert outcome.priced == undisturbed


def test_files_that_are_merged_between_their_listing_and_their_footers_are_listed_again_and_cost_as_much(
    spark: SparkSession,
    usage: Path,
    compaction: Callable[[], int],
    undisturbed: tuple[Priced, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = Footers.read

    def merged_before(self: Footers, path: str, column: str, note: str) -> Footer:
        compaction()
        return read(self, path, column, note)

    monkeypatch.setattr(folders.Footers, "read", merged_before)
    outcome = compute_readable(spark, Request(month=OCTOBER, usage=str(usage), prices=PRICES), NOW)
    assert (outcome.counts.accepted, outcome.counts.rejected) == (2, [])
    assert outcome.priced == undisturbed
