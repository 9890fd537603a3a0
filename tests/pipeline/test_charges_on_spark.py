"""A month's charges from files, on Spark, against the plain-Python reference and against numbers by hand."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from pipeline.charges import Request, compute_readable
from pipeline.invoice import Invoice
from pipeline.jobs.charges import SAMPLE_PRICES
from pipeline.months import Month
from pipeline.prices import read_prices
from pipeline.results import Outcome
from pipeline.schemas import CONNECTIONS, KINDS, USAGE
from pipeline.usage.folder import UsageFolder
from pipeline.usage.table import DayTable
from tests.pipeline.conftest import Write, write_table
from tests.pipeline.reference import charges, facts
from tests.selection import is_nightly

pytestmark = pytest.mark.spark
OCTOBER = Month.parse("2026-10")
PRICES = read_prices(SAMPLE_PRICES, OCTOBER)
NOW = datetime(2026, 11, 20, tzinfo=UTC)
MILLION = 1_000_000


def record(record_id: str, minute: datetime = OCTOBER.start, **fields: Any) -> dict[str, Any]:
    units = fields.pop("units", 1)
    return {
        "record_id": record_id,
        "minute": minute,
        "scope": "sub",
        "pair": "contoso",
        "namespace": "contoso",
        "entity": "orders",
        "kind": "send",
        "reporter": "host:1",
        "seq": 1,
        "operations": units,
        "messages": 0,
        "bytes": 0,
        "billing_units": units,
    } | fields


def request(usage: Path, table: Path | None = None, **terms: Any) -> Request:
    """The request of the month's charges; without a `table` all days are summed."""
    folder = UsageFolder.of(str(usage))
    kept = DayTable.of(table or Path(mkdtemp(dir=usage.parent)), folder.url)
    return Request(month=OCTOBER, usage=folder, table=kept, prices=PRICES, **terms)


def computed(spark: SparkSession, usage: Path, table: Path | None = None, **terms: Any) -> Outcome:
    return compute_readable(lambda rows: spark, request(usage, table, **terms), NOW)


def invoice_of(outcome: Outcome, rule: str = "published", scope: str = "sub") -> Invoice:
    return next(
        priced.invoice for priced in outcome.priced if (priced.invoice.rule, priced.invoice.scope) == (rule, scope)
    )


def test_a_month_by_hand(spark: SparkSession, usage: Path, write: Write) -> None:
    first, second, last = OCTOBER.start, OCTOBER.start + timedelta(days=9), OCTOBER.end - timedelta(minutes=1)
    rows = [
        record("a", first, units=10 * MILLION),
        record("b", second, units=8_003_720, entity="payments", kind="send_backlog", namespace="contoso-dr"),
        record("c", last, units=2 * MILLION, kind="settle"),
        record("d", first, scope="other", units=MILLION),
        # a copy, a correction, an older version, and a row that equals another in all but its identity
        record("a", first, units=10 * MILLION),
        record("e", second, units=999 * MILLION, seq=1, kind="receive"),
        record("e", second, units=100, seq=3, kind="receive"),
        record("e", second, units=777 * MILLION, seq=2, kind="receive"),
        record("f", second, units=100, seq=3, kind="receive"),
        # the neighbours of the month are not in it
        record("g", first - timedelta(minutes=1), units=500 * MILLION),
        record("h", OCTOBER.end, units=500 * MILLION),
    ]
    write(rows[:5], USAGE)
    write(rows[5:], USAGE)
    hours = [OCTOBER.start + timedelta(hours=n) for n in range(3)]
    peaks = [{"hour": hour, "scope": "sub", "namespace": "contoso", "peak": 744 * 1_000} for hour in hours]
    write([*peaks, peaks[0] | {"peak": 5}], CONNECTIONS, "connections")

    outcome = computed(spark, usage)

    of_connections = 4
    assert (outcome.counts.read, outcome.counts.accepted) == (9 + of_connections, 6 + of_connections)
    assert outcome.counts.copies == 3
    published = invoice_of(outcome)
    assert {
        (line.namespace, line.kind): (line.operations, line.units, line.included, line.cents)
        for line in published.lines
    } == {
        ("contoso", "send"): (10 * MILLION, 10 * MILLION, 10 * MILLION, 0),
        ("contoso-dr", "send_backlog"): (8_003_720, 8_003_720, 2_999_800, 400),
        ("contoso", "receive"): (200, 200, 200, 0),
        ("contoso", "settle"): (2 * MILLION, 0, 0, 0),
        ("contoso", "connections"): (0, 0, 0, 6_000),
        ("$system", "base"): (0, 0, 0, 1_000),
    }
    assert published.cents == 7_400
    assert invoice_of(outcome, "settlements").cents == 7_400 + 160
    assert invoice_of(outcome, scope="other").cents == 1_000
    days = {
        (day.date, day.kind): day.units
        for priced in outcome.priced
        if priced.invoice is published
        for day in priced.days
    }
    assert days["2026-10-10", "send_backlog"] == 8_003_720


def test_pro_rata_shares_the_charge_by_billable_units(spark: SparkSession, usage: Path, write: Write) -> None:
    early = record("a", units=15 * MILLION)
    late = record("b", OCTOBER.start + timedelta(days=20), units=5 * MILLION, entity="payments")
    write([early, late], USAGE)
    lines = {
        line.entity: line for line in invoice_of(computed(spark, usage, allocation="pro-rata")).lines if line.units
    }
    assert (lines["orders"].cents, lines["payments"].cents) == (420, 140)
    assert (lines["orders"].included, lines["payments"].included) == (9_750_000, 3_250_000)


@pytest.mark.parametrize("folders", [(), ("usage",), ("usage", "connections")])
def test_a_month_without_usage_has_no_rows(spark: SparkSession, usage: Path, folders: tuple[str, ...]) -> None:
    for name in folders:
        (usage / name).mkdir()
    assert computed(spark, usage).priced == ()


def test_the_peaks_of_processes_add_up_unless_somebody_knows_the_whole_namespaces(
    spark: SparkSession, usage: Path, write: Write
) -> None:
    """Connections alone are billed without a base charge."""
    first, second = OCTOBER.start, OCTOBER.start + timedelta(hours=1)

    def peak(hour: datetime, peak: int, reporter: str | None = None) -> dict[str, Any]:
        return {"hour": hour, "scope": "sub", "namespace": "contoso", "peak": 744 * peak, "reporter": reporter}

    reported = [
        peak(first, 900, "host:1"),
        peak(first, 700, "host:1"),  # what it had said before
        peak(first, 400, "host:2"),
        peak(first, 900, "host:1"),  # delivered again
        peak(second, 5_000, "host:1"),
    ]
    write(reported, CONNECTIONS | {"reporter": "string"}, "connections")
    write([{key: value for key, value in peak(second, 100).items() if key != "reporter"}], CONNECTIONS, "connections")
    (line,) = invoice_of(computed(spark, usage)).lines
    assert (line.kind, line.quantity, line.cents) == ("connections", 1_300 + 100, 1_200)


SIZES = st.one_of(
    st.integers(0, 5), st.integers(0, 3 * MILLION), st.integers(0, 60 * MILLION), st.just(1_300 * MILLION)
)
MINUTES = st.integers(0, OCTOBER.hours * 60 - 1).map(lambda n: OCTOBER.start + timedelta(minutes=n))
Rows = list[dict[str, Any]]


@st.composite
def months(draw: st.DrawFn) -> Rows:
    """One scope's month: few minutes, so that records share hours and minutes; copies and corrections among them."""
    minutes = draw(st.lists(MINUTES, min_size=1, max_size=6))
    numbered = st.tuples(st.integers(0, 40), st.integers(1, 3))  # two versions with one seq would be two truths
    return [
        record(
            str(number),
            draw(st.sampled_from(minutes)),
            seq=seq,
            units=draw(SIZES),
            namespace=draw(st.sampled_from(["contoso", "contoso-dr"])),
            entity=draw(st.sampled_from(["orders", "payments", "orders/eu"])),
            kind=draw(st.sampled_from(KINDS)),
        )
        for number, seq in draw(st.lists(numbered, max_size=30, unique=True))
    ]


# Many scopes in one frame: each is a case of its own, and Spark starts only once for all of them.
@settings(
    max_examples=3 if is_nightly() else 2,  # the first example is the smallest there is: months without a record
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(cases=st.lists(months(), min_size=40, max_size=40))
def test_random_months_agree_with_the_reference_to_the_last_digit(
    spark: SparkSession, usage: Path, write: Write, cases: list[Rows]
) -> None:
    """Also where half of the records come later, and a file lies in the folder of another day."""
    rows = [
        row | {"scope": f"scope-{n}", "record_id": f"{n}-{row['record_id']}"}
        for n, case in enumerate(cases)
        for row in case
    ]
    shutil.rmtree(usage / "usage", ignore_errors=True)
    half, table = len(rows) // 2, Path(mkdtemp(dir=usage.parent))
    write(rows[:half], USAGE)
    computed(spark, usage, table)
    write(rows[half:], USAGE)
    write_table(usage / "usage" / "date=2026-10-07" / "elsewhere.parquet", rows[:50], USAGE)
    outcome = computed(spark, usage, table)
    written = len(rows) + len(rows[:50])
    assert outcome.counts.copies == written - len(facts(rows))
    assert outcome.counts.quarantined == 0
    for rule in ("published", "settlements"):
        found = {
            (priced.invoice.scope, line.namespace, line.entity, line.kind): (line.units, line.exact)
            for priced in outcome.priced
            for line in priced.invoice.lines
            if priced.invoice.rule == rule and line.kind in KINDS
        }
        assert found == charges(rows, PRICES.operations, rule)
    for priced in outcome.priced:
        invoice = priced.invoice
        assert sum(line.cents for line in invoice.lines) == invoice.cents
        assert abs(invoice.exact * 100 - invoice.cents) * 2 <= 1
        assert sum(line.included for line in invoice.lines) == min(invoice.units, 13 * MILLION)
        assert sum(day.exact for day in priced.days) == sum(line.exact for line in invoice.lines if line.kind in KINDS)
