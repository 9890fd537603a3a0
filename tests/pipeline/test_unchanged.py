"""While nothing changes that a run reads, the result of the last run is given again, without Spark (docs/costs.md)."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline import unchanged
from pipeline.charges import Request, compute_readable
from pipeline.checks import FUTURE
from pipeline.counts import Counts
from pipeline.jobs import charges
from pipeline.outages import Episode, availability
from pipeline.progress import Progress
from pipeline.results import Outcome, write_results
from pipeline.schemas import USAGE
from pipeline.unchanged import Inputs, KeptResult
from tests.pipeline.conftest import Write
from tests.pipeline.test_charges_on_spark import OCTOBER, PRICES, record

NOW = datetime(2026, 10, 20, tzinfo=UTC)
FIRST = OCTOBER.start
Change = Callable[["Month"], None]


def lines(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in records))
    return path


class Month:
    """The files that a run reads, and its result."""

    def __init__(self, folder: Path) -> None:
        self.usage, self.result = folder / "usage-dir", folder / "result.jsonl"
        self.outages, self.prices = lines(folder / "outages"), lines(folder / "prices")
        self.options: dict[str, object] = {"allocation": "time"}
        self.put("usage/date=2026-10-01/0.parquet")
        self.put("hourly/_2026-10.json")
        self.counts, self.now = Counts(read=1, accepted=1), NOW
        self.inventory = (("contoso", "orders"),)

    def put(self, name: str) -> Path:
        path = self.usage / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        return path

    @property
    def kept(self) -> KeptResult:
        files = (self.prices, None)
        return KeptResult.of(
            Inputs(month=OCTOBER, usage=self.usage, outages=self.outages, files=files, options=self.options)
        )

    def computed(self) -> str:
        """What a run writes, which then is kept."""
        episodes = [
            Episode(
                pair=each["pair"],
                entity=each["entity"],
                started=datetime.fromisoformat(each["started"]),
                ended=datetime.fromisoformat(each["ended"]) if each["ended"] else None,
                cause="failed",
                reason="",
                down_s=540.0,
            )
            for each in map(json.loads, self.outages.read_text().splitlines())
        ]
        known = availability(episodes, self.inventory, OCTOBER, self.now)
        outcome = Outcome(counts=self.counts, priced=(), episodes=tuple(episodes), availability=tuple(known))
        write_results(self.result, {"month": "2026-10"}, PRICES, outcome)
        self.kept.keep(self.result, self.now)
        return self.result.read_text()

    def given(self) -> str | None:
        """What the next run gives without computing it; None if it has to."""
        self.result.unlink()
        return self.result.read_text() if self.kept.give(self.result, self.inventory, self.now) else None


@pytest.fixture
def month(tmp_path: Path) -> Month:
    return Month(tmp_path)


def test_a_run_that_reads_the_same_gives_the_same(month: Month) -> None:
    first = month.computed()
    assert month.given() == month.given() == first


def a_file_that_was_written_again(month: Month) -> None:
    os.utime(month.usage / "usage" / "date=2026-10-01" / "0.parquet", (1, 1))


def a_file_more(month: Month) -> None:
    month.put("usage/date=2026-10-02/late.parquet")


def a_peak_of_connections(month: Month) -> None:
    month.put("connections/date=2026-10-01/0.parquet")


def a_file_beside_the_days(month: Month) -> None:
    month.put("usage/notes.txt")


def a_file_less(month: Month) -> None:
    shutil.rmtree(month.usage / "usage" / "date=2026-10-01")


def another_price(month: Month) -> None:
    month.prices.write_text("dearer")


def another_option(month: Month) -> None:
    month.options["allocation"] = "pro-rata"


def an_outage(month: Month, ended: datetime | None = FIRST + timedelta(minutes=9)) -> None:
    at = ended.isoformat() if ended else None
    lines(month.outages, {"pair": "contoso", "entity": "orders", "started": FIRST.isoformat(), "ended": at})


def no_hours_any_more(month: Month) -> None:
    (month.usage / "hourly" / "_2026-10.json").unlink()


def half_a_result(month: Month) -> None:
    kept = month.kept.path
    kept.write_bytes(kept.read_bytes()[:-9])


def an_empty_result(month: Month) -> None:
    month.kept.path.write_bytes(b"")


def a_damaged_result(month: Month) -> None:
    content = bytearray(month.kept.path.read_bytes())
    content[len(content) // 2] ^= 255
    month.kept.path.write_bytes(content)


CHANGES = [
    *(a_file_that_was_written_again, a_file_more, a_file_less, a_peak_of_connections, a_file_beside_the_days),
    *(another_price, another_option, an_outage, no_hours_any_more, half_a_result, an_empty_result, a_damaged_result),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_whatever_a_run_reads_is_computed_again_once_it_changed(month: Month, change: Change) -> None:
    month.computed()
    change(month)
    assert month.given() is None
    assert not month.result.exists()


def test_other_months_change_nothing(month: Month) -> None:
    first = month.computed()
    month.put("usage/date=2026-11-01/0.parquet")
    month.put("connections/date=2026-09-30/0.parquet")
    assert month.given() is not None
    month.put("usage/date=2026-11-01/1.parquet")
    assert month.given() == first


def test_another_version_of_the_code_computes_again(
    month: Month, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    month.computed()
    monkeypatch.setattr(unchanged, "CODE", tmp_path)
    (tmp_path / "code.py").write_text("changed = True")
    assert month.given() is None


def test_the_availability_is_that_of_now_and_of_all_entities_that_are_known_now(month: Month) -> None:
    an_outage(month)
    month.computed()
    month.now += timedelta(days=1)
    month.inventory = (("contoso", "payments"), ("contoso", "straße \ud800"))
    given = month.given()
    assert given is not None
    assert '"entity": "payments"' in given
    assert given == month.computed()


def of_the_future(month: Month) -> None:
    month.counts = replace(month.counts, read=2, quarantined=1, reasons={FUTURE: 1})


def before_its_month(month: Month) -> None:
    month.now = OCTOBER.start - timedelta(days=1)


def an_outage_that_goes_on(month: Month) -> None:
    an_outage(month, ended=None)


def an_outage_by_a_clock_that_is_ahead(month: Month) -> None:
    an_outage(month, ended=NOW + timedelta(hours=1))


FOR_NOW = [of_the_future, before_its_month, an_outage_that_goes_on, an_outage_by_a_clock_that_is_ahead]


@pytest.mark.parametrize("what", FOR_NOW, ids=lambda what: what.__name__)
def test_what_time_alone_will_change_is_not_kept(month: Month, what: Change) -> None:
    month.computed()
    assert month.kept.path.exists()
    what(month)
    month.computed()
    assert not month.kept.path.exists()


def test_a_disk_that_is_full_costs_the_kept_result_only(month: Month) -> None:
    month.computed()
    month.kept.path.unlink()
    month.kept.path.with_suffix(".part").mkdir()  # nothing can be written there
    first = month.computed()
    assert (month.result.read_text(), month.given()) == (first, None)


@pytest.mark.parametrize("more", [("--outages", "nowhere"), ("--usage", __file__)], ids=["outages", "usage"])
def test_what_cannot_be_read_is_left_to_the_run_to_report(tmp_path: Path, more: tuple[str, str]) -> None:
    given = ["--month", "2026-10", "--usage", str(tmp_path), "--result", "r", "--incremental", *more]
    assert charges._kept(charges.parser().parse_args(given), OCTOBER) is None


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_the_job_computes_once_and_again_after_a_change(
    spark: SparkSession, usage: Path, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[Request] = []
    monkeypatch.setattr(charges, "utc_now", lambda: NOW)

    def compute(request: Request, now: datetime, progress: Progress) -> Outcome:
        computed.append(request)
        return compute_readable(spark, request, now, progress)

    def run(*more: str) -> list[dict[str, Any]]:
        result, inventory = tmp_path / "result.jsonl", lines(tmp_path / "entities", {"pair": "p", "entity": "orders"})
        given = ["--month", "2026-10", "--usage", str(usage), "--result", str(result), "--inventory", str(inventory)]
        charges.run(charges.parser().parse_args([*given, *more]), compute, lambda *said: None)
        return [json.loads(line) for line in result.read_text(encoding="utf-8").splitlines()]

    outages = ["--incremental", "--outages", str(lines(tmp_path / "outages"))]
    write([record("1", FIRST, units=7)], USAGE)
    first = run(*outages)
    assert run(*outages) == first
    assert len(computed) == 1
    write([record("2", FIRST, units=70)], USAGE)
    assert run(*outages) != first
    assert len(computed) == 2
