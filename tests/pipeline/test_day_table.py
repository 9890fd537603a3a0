"""The table of day sums: only what has changed is summed again, and nothing half made is believed."""

from __future__ import annotations

import ast
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pipeline.charges import compute_readable
from pipeline.errors import PipelineError
from pipeline.results import Outcome
from pipeline.schemas import CONNECTIONS, USAGE
from pipeline.usage import refreshing
from pipeline.usage.compaction import compact
from pipeline.usage.folder import UsageFolder
from pipeline.usage.listing import changed_days
from pipeline.usage.refreshing import Files, Refreshing
from pipeline.usage.summing import Records
from pipeline.usage.table import DayTable
from tests.pipeline.conftest import Write, write_table
from tests.pipeline.test_charges_on_spark import MILLION, NOW, OCTOBER, computed, invoice_of, record, request

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
PIPELINE = Path(__file__).parents[2] / "pipeline"
DAYS = [OCTOBER.start + timedelta(days=n) for n in (0, 8, 20)]


def month(*days: datetime) -> list[dict[str, Any]]:
    """The free operations end on the second of these days, and under the other rule on the first."""
    return [
        record(f"{day.day}-{kind}", day + timedelta(minutes=n), units=7 * MILLION, kind=kind)
        for day in days or DAYS
        for n, kind in enumerate(("send", "settle"))
    ]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "table"


@pytest.fixture
def summed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The days that are summed."""
    days: list[str] = []
    write = DayTable.write

    def noted(self: DayTable, day: str, *others: Any) -> None:
        days.append(day)
        write(self, day, *others)

    monkeypatch.setattr(DayTable, "write", noted)
    return days


@pytest.fixture(scope="module")
def first_run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Outcome]:
    """The month's usage, the table that a run has left, and its outcome."""
    usage, table = (tmp_path_factory.mktemp("first") / name for name in ("usage-dir", "table"))
    for day in DAYS:
        write_table(usage / "usage" / f"date={day:%Y-%m-%d}" / "first.parquet", month(day), USAGE)
    return usage, table, computed(spark, usage, table)


@pytest.fixture
def before(usage: Path, table: Path, first_run: tuple[Path, Path, Outcome]) -> Outcome:
    """The month and its table are here, as that run has left them."""
    first_usage, first_table, outcome = first_run
    shutil.copytree(first_usage, usage, dirs_exist_ok=True)
    known = (DayTable.of(at, f"file://{url}") for at, url in ((first_table, first_usage), (table, usage)))
    shutil.copytree(*(each.folder for each in known))
    return outcome


def test_what_has_not_changed_is_priced_without_spark_and_only_changed_days_are_summed_again(
    spark: SparkSession, usage: Path, write: Write, table: Path, summed: list[str], before: Outcome
) -> None:
    assert compute_readable(lambda: pytest.fail("Spark was started"), request(usage, table), NOW) == before
    corrected = [row | {"seq": 2, "billing_units": 9 * MILLION} for row in month(DAYS[2])]
    write([*corrected, *month(DAYS[2])], USAGE)
    next((usage / "usage" / "date=2026-10-09").iterdir()).unlink()
    write([record("new", OCTOBER.start + timedelta(days=3))], USAGE)
    after = computed(spark, usage, table)
    assert summed == ["2026-10-04", "2026-10-21"]
    assert after.late_days == ("2026-10-21",)
    assert outcome_of(after) == outcome_of(computed(spark, usage))
    assert (after.counts.accepted, after.counts.copies) == (5, 4)
    assert changed_days(UsageFolder.of(str(usage)), DayTable.of(table, f"file://{usage}")) == []


def outcome_of(outcome: Outcome) -> tuple[object, ...]:
    return outcome.counts, outcome.priced, outcome.episodes


@pytest.fixture(scope="module")
def expected(first_run: tuple[Path, Path, Outcome]) -> tuple[object, ...]:
    """The outcome of the month, which no table was there for."""
    return outcome_of(first_run[2])


@pytest.mark.usefixtures("before")
def test_a_file_with_rows_of_another_day_changes_both(
    spark: SparkSession, usage: Path, table: Path, summed: list[str]
) -> None:
    other_month = record("september", OCTOBER.start - timedelta(days=1))
    elsewhere = usage / "usage" / "date=2026-10-21" / "elsewhere.parquet"
    rows = [record("1-send", DAYS[0], seq=2, units=5, kind="send"), other_month, *month(DAYS[2])]
    write_table(elsewhere, rows, USAGE)
    write_table(usage / "usage" / "date=2026-09-02" / "0.parquet", [record("s", OCTOBER.start - timedelta(29))], USAGE)
    outcome = computed(spark, usage, table)
    assert summed == ["2026-10-21", "2026-10-01"]
    assert (outcome.counts.read, outcome.counts.accepted, outcome.counts.copies) == (9, 6, 3)
    assert {day.date: day.units for day in outcome.priced[0].days if day.kind == "send"}["2026-10-01"] == 5
    known = UsageFolder.of(str(usage)), DayTable.of(table, f"file://{usage}")
    assert changed_days(*known) == ["2026-09-02", "2026-09-30"]
    elsewhere.unlink()
    summed.clear()
    assert computed(spark, usage, table).counts.accepted == 6
    assert sorted(summed) == ["2026-10-01", "2026-10-21"]


def test_an_id_names_a_record_within_the_day_of_its_minute(spark: SparkSession, usage: Path, write: Write) -> None:
    write([record("a", DAYS[0], units=3), record("a", DAYS[1], units=4)], USAGE)
    write([record("a", DAYS[0] + timedelta(hours=5), seq=2, units=50)], USAGE)
    outcome = computed(spark, usage)
    assert (outcome.counts.accepted, outcome.counts.copies, invoice_of(outcome).units) == (2, 1, 54)


def test_runs_that_die_between_two_writes_leave_only_whole_days(
    spark: SparkSession, usage: Path, write: Write, table: Path, monkeypatch: pytest.MonkeyPatch, expected: object
) -> None:
    """One after another: before any day, after the first, before the sums by minute, and between two of these."""
    write(month(), USAGE)
    replace = os.replace
    for writes in (0, 1, 2, 1):
        left = iter(range(writes))

        def dying(source: str, target: str, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise KeyboardInterrupt
            replace(source, target)

        with monkeypatch.context() as killed:
            killed.setattr(os, "replace", dying)
            with pytest.raises(KeyboardInterrupt):
                computed(spark, usage, table)
    assert (len(list(table.rglob("*.hours.parquet"))), len(list(table.rglob("*.minutes.parquet")))) == (3, 1)
    assert outcome_of(computed(spark, usage, table)) == expected


def test_of_runs_at_once_each_has_a_whole_state_of_every_day(
    spark: SparkSession, usage: Path, write: Write, table: Path, expected: object
) -> None:
    write(month(), USAGE)
    others: dict[str, Outcome] = {}

    def another(at: str, share: float, rows: int) -> None:
        if at in ("summing by hour", "pricing") and at not in others:
            others[at] = computed(spark, usage, table)

    first = compute_readable(lambda rows: spark, request(usage, table), NOW, another)
    assert [outcome_of(each) for each in (first, *others.values())] == [expected] * 3


@pytest.mark.usefixtures("before")
def test_hours_are_summed_by_minute_from_as_many_days_at_once_as_are_summed_by_hour(
    spark: SparkSession, usage: Path, table: Path, monkeypatch: pytest.MonkeyPatch, expected: object
) -> None:
    for kept in table.rglob("*.minutes.parquet"):
        kept.unlink()
    at_once: list[int] = []
    records = Refreshing._records

    def noted(self: Refreshing, days: Mapping[str, Files]) -> Records | None:
        at_once.append(len(days))
        return records(self, days)

    monkeypatch.setattr(Refreshing, "_records", noted)
    monkeypatch.setattr(refreshing, "ROWS_AT_ONCE", len(month()) // len(DAYS))
    assert outcome_of(computed(spark, usage, table)) == expected
    assert at_once == [1, 1]


@pytest.mark.parametrize("stage", ["summing by hour", "pricing"])
def test_a_run_counts_each_record_once_whenever_files_are_merged(
    spark: SparkSession, usage: Path, table: Path, expected: tuple[object, ...], stage: str
) -> None:
    for number, row in enumerate(month()):
        write_table(usage / "usage" / f"date={row['minute']:%Y-%m-%d}" / f"part-{number}.parquet", [row], USAGE)

    def merging(at: str, share: float, rows: int) -> None:
        if at == stage:
            compact(UsageFolder.of(str(usage)), NOW)

    outcome = compute_readable(lambda rows: spark, request(usage, table), NOW, merging)
    assert [path.name[:8] for path in (usage / "usage" / "date=2026-10-01").iterdir()] == ["compact-"]
    assert (outcome.counts.accepted, outcome.counts.rejected) == (6, [])
    assert outcome_of(outcome)[1:] == expected[1:]


def test_files_that_come_while_a_run_sums_are_the_next_runs(
    spark: SparkSession, usage: Path, write: Write, table: Path, summed: list[str]
) -> None:
    def coming(at: str, share: float, rows: int) -> None:
        if at == "summing by hour":
            write([record(f"more-{len(summed)}", DAYS[2])], USAGE)

    write(month(), USAGE)
    first = compute_readable(lambda rows: spark, request(usage, table), NOW, coming)
    assert (first.counts.accepted, summed) == (6, [f"{day:%Y-%m-%d}" for day in DAYS])
    assert computed(spark, usage, table).counts.accepted == 7


@pytest.mark.usefixtures("before")
def test_sums_that_are_damaged_are_refused_by_name(
    spark: SparkSession, usage: Path, table: Path, expected: object
) -> None:
    kept = next(table.rglob("2026-10-09.hours.parquet"))
    kept.write_bytes(kept.read_bytes()[:-20])
    with pytest.raises(PipelineError, match=r"2026-10-09\.hours\.parquet cannot be read: delete the file"):
        computed(spark, usage, table)
    kept.unlink()
    assert outcome_of(computed(spark, usage, table)) == expected


def test_a_row_of_the_future_is_judged_again_when_its_time_has_come(
    spark: SparkSession, usage: Path, write: Write, table: Path
) -> None:
    write([record("now", DAYS[1]), record("later", DAYS[1] + timedelta(hours=12))], USAGE)
    before_it = DAYS[0] - timedelta(days=30)
    asked = request(usage, table, max_quarantined=1)
    for now, accepted in ((before_it, 2), (DAYS[1], 1), (DAYS[1] + timedelta(days=1), 2)):
        assert compute_readable(lambda rows: spark, asked, now).counts.accepted == accepted, now


def test_minutes_that_are_left_to_the_next_run_are_in_the_sums_of_neither_hours_nor_minutes_before(
    spark: SparkSession, usage: Path, write: Write, table: Path
) -> None:
    at = DAYS[1] + timedelta(hours=12)
    write([record(str(n), at + timedelta(minutes=n), units=3 + n, kind="ping") for n in range(2)], USAGE)
    outages = table.parent / "outages.jsonl"
    began = {"started": at.isoformat(), "ended": None, "cause": "failed_over", "reason": ""}
    outages.write_text(json.dumps({"pair": "contoso", "entity": "orders"} | began) + "\n", encoding="utf-8")
    for minutes, units in ((1, 3), (1, 3), (2, 7)):
        asked = request(usage, table, until=at + timedelta(minutes=minutes), outages=outages)
        outcome = compute_readable(lambda rows: spark, asked, NOW)
        found = outcome.counts.accepted, outcome.counts.quarantined, outcome.episodes[0].units["ping"]
        assert found == (minutes, 0, units)


@pytest.mark.usefixtures("before")
def test_late_peaks_of_connections_change_their_day(usage: Path, write: Write, table: Path) -> None:
    write([{"hour": DAYS[2], "scope": "sub", "namespace": "contoso", "peak": 1}], CONNECTIONS, "connections")
    assert changed_days(UsageFolder.of(str(usage)), DayTable.of(table, f"file://{usage}")) == ["2026-10-21"]


@pytest.mark.parametrize("place", ["usage/date=2026-10-01/late.parquet", "usage/date=2026-10-05"])
@pytest.mark.parametrize("target", ["/nowhere", "itself"])
def test_a_day_or_file_behind_a_link_that_leads_nowhere_ends_the_run(
    spark: SparkSession, usage: Path, write: Write, place: str, target: str
) -> None:
    write(month(), USAGE)
    link = usage / place
    link.symlink_to(link if target == "itself" else target)
    with pytest.raises(PipelineError, match=f"{link} is a link that leads nowhere: repair or remove it"):
        computed(spark, usage)


def test_the_pipeline_uses_public_names_of_spark_and_one_flag_of_the_jvm() -> None:
    for path in PIPELINE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        private = [
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__")
            if not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
        ]
        assert private in ([], ["_exit"]), path
        texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
        flags = [text for text in texts if isinstance(text, str) and ("-XX" in text or "JavaOptions" in text)]
        assert set(flags) <= {"spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1"}, path
