"""What a month's figures mean: what failover added, idle syphons, the month before, day by day."""

from datetime import date
from fractions import Fraction
from typing import Any

import pytest
from django.utils import timezone

from dashboard.cost_chart import DayOf, days_chart
from dashboard.cost_insight import EXTRA_KINDS, added_by, change, idle, previous
from dashboard.cost_report import Filters, report
from dashboard.models import Charge, ChargeRun, Invoice

pytestmark = pytest.mark.django_db
MILLION = 1_000_000
PRICES = [
    {"meter": "Standard Messaging Operations", "unit": "1M", "from": start, "price": price, "currency": "USD"}
    for start, price in (("0", "0.0"), ("13", "0.8"), ("100", "0.5"), ("2500", "0.2"))
]


def month(name: str, cents: int, units: int, **kinds: int) -> Invoice:
    """A stored month of one scope: its total, its operations, and billable units by kind."""
    now = timezone.now()
    details = {"prices": PRICES, "counts": {"reasons": {}, "rejected": []}}
    run = ChargeRun.objects.create(month=name, started_at=now, heard_at=now, details=details, status="succeeded")
    shared: dict[str, Any] = {"month": name, "scope": "sub", "allocation": "time", "currency": "USD", "exact": "0"}
    made = Invoice.objects.create(run=run, rule="published", cents=cents, units=units, **shared)
    for kind, amount in kinds.items():
        counts = {"operations": amount, "billing_units": amount, "included_units": 0}
        Charge.objects.create(
            invoice=made, pair="contoso", namespace="contoso", entity="orders", kind=kind, quantity="0", exact="0",
            cents=cents if kind == "send" else 0, **counts
        )  # fmt: skip
    return made


def test_failover_costs_what_the_month_costs_more_for_it() -> None:
    # docs/pricing.md, section 9: 8,003,720 operations after 10 million; without the outage 4,000,000 of them
    stages = {"send_backlog": 2 * MILLION, "syphon_receive": 2 * MILLION, "syphon_send": 2 * MILLION}
    made = month(
        "2026-10",
        400,
        18_003_720,
        send=10 * MILLION,
        receive=2 * MILLION,
        ping=3_600,
        syphon_receive_empty=120,
        **stages,
    )
    added = added_by([made], EXTRA_KINDS)
    assert (added.operations, added.cents) == (4_003_720, 320)
    assert added.per_million == Fraction("0.8")


def test_failover_inside_the_allowance_costs_nothing_and_says_so() -> None:
    added = added_by([month("2026-10", 0, 5 * MILLION, send_backlog=MILLION)], EXTRA_KINDS)
    assert (added.operations, added.cents) == (MILLION, 0)


@pytest.mark.parametrize(("polls", "pollers"), [(0, 0), (1, 0), (2_976, 1), (29_760, 10), (29_761, 10)])
def test_idle_polls_are_told_as_queues_polled_all_month(polls: int, pollers: int) -> None:
    assert idle([month("2026-10", 0, 50 * MILLION, syphon_receive_empty=polls)], days=31).pollers == pollers


@pytest.mark.parametrize(("name", "before"), [("2026-10", "2026-09"), ("2026-01", "2025-12"), ("2026-12", "2026-11")])
def test_the_month_before(name: str, before: str) -> None:
    assert previous(name) == before


def test_a_month_is_compared_with_the_one_before() -> None:
    month("2026-09", 2_000, MILLION, send=MILLION)
    found = change("2026-10", "published", "", 2_500)
    assert found is not None
    assert (found.month, found.total, found.difference, found.percent) == ("2026-09", 2_000, 500, 25)
    assert change("2026-09", "published", "", 2_000) is None


def test_the_report_narrows_down_to_a_kind_and_an_entity() -> None:
    month("2026-10", 560, 20 * MILLION, send=20 * MILLION, ping=5)
    pings = report("2026-10", filters=Filters(kind="ping"))
    assert pings is not None
    assert ([share.name for share in pings.by_kind], pings.total) == (["ping"], 0)
    nothing = report("2026-10", filters=Filters(entity="payments"))
    assert nothing is not None
    assert (nothing.total, nothing.row_count) == (0, 0)


def day(number: int, kind: str, cents: int, operations: int = 5) -> DayOf:
    return DayOf(date(2026, 10, number), kind, operations, Fraction(cents, 100))


def test_the_chart_draws_a_bar_for_each_day_and_group_and_tells_the_numbers() -> None:
    chart = days_chart(
        "2026-10", [day(1, "send", 50), day(1, "receive", 50), day(1, "ping", 25), day(31, "send", 10)], "USD"
    )
    assert chart is not None
    assert chart.svg.count("<rect") == 3
    assert "<title>1: Your traffic, 1.00</title>" in chart.svg
    assert chart.rows == [(date(2026, 10, 1), ["1.00", "0.25"]), (date(2026, 10, 31), ["0.10", "0.00"])]


def test_the_chart_shows_operations_while_everything_is_included() -> None:
    chart = days_chart("2026-10", [day(1, "send", 0, 1_234)], "USD")
    assert chart is not None
    assert (chart.of_money, chart.rows) == (False, [(date(2026, 10, 1), ["1,234"])])


def test_a_month_without_anything_has_no_chart() -> None:
    assert days_chart("2026-10", [day(1, "settle", 0, 0)], "USD") is None
