"""What a month's figures mean: what failover added, idle syphons, the month before, day by day."""

from datetime import UTC, date, datetime
from fractions import Fraction
from typing import Any

import pytest
from django.utils import timezone

from dashboard.costs.reporting.chart import DayOf, days_chart
from dashboard.costs.reporting.insight import change, failover
from dashboard.costs.reporting.report import Filters, report
from dashboard.models import Charge, ChargeRun, DailyCharge, Invoice, Pair
from dashboard.models.visibility import seen_as
from pipeline.months import Month
from tests.dashboard.costs.test_costs import RUN
from tests.dashboard.markup import one_line
from tests.dashboard.served import PAIRS

pytestmark = pytest.mark.django_db
MILLION = 1_000_000
PRICES = [
    {"meter": "Standard Messaging Operations", "unit": "1M", "from": start, "price": price, "currency": "USD"}
    for start, price in (("0", "0.0"), ("13", "0.8"), ("100", "0.5"), ("2500", "0.2"))
]


def month(name: str, cents: int, units: int, **kinds: int) -> Invoice:
    """A stored month of one scope: its total, its operations, and billable units by kind."""
    now = timezone.now()
    details = {"prices": PRICES, "counts": RUN["counts"]}
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


def test_failover_costs_what_the_month_costs_more_for_it():
    # docs/pricing.md, section 9: 8,003,720 operations after 10 million; without the outage 4,000,000 of them
    stages = {"send_backlog": 2 * MILLION, "syphon_receive": 2 * MILLION, "syphon_send": 2 * MILLION}
    others = {"send": 10 * MILLION, "receive": 2 * MILLION, "ping": 3_600, "syphon_receive_empty": 120}
    made = month("2026-10", 400, 18_003_720, **others, **stages)
    added = failover([made])
    assert (added.total, added.cents) == (4_003_720, 320)
    assert added.parts == {
        part: units * Fraction("0.8") / MILLION
        for part, units in (("outages", 4 * MILLION), ("pings", 3_600), ("idle", 120))
    }


def other_pair(invoice: Invoice, **kinds: int) -> None:
    """What another pair did on the same bill."""
    for kind, amount in kinds.items():
        counts = {"operations": amount, "billing_units": amount, "included_units": 0, "quantity": "0", "exact": "0"}
        names = {"pair": "fabrikam", "namespace": "fabrikam", "entity": "orders", "kind": kind}
        Charge.objects.create(invoice=invoice, cents=0, **names, **counts)


def test_failover_of_a_pair_costs_the_same_for_its_team_and_for_those_who_see_all_pairs(pair):
    made = month("2026-10", 80, 14 * MILLION, send_backlog=MILLION)
    other_pair(made, send_backlog=2 * MILLION)  # together they are on both sides of a tier
    whole = failover([made], "contoso")
    with seen_as(lambda: Pair._base_manager.filter(name="contoso")):
        assert failover([made]).parts == failover([made], "contoso").parts == whole.parts
        assert failover([made]).rates == whole.rates


def test_of_one_pair_its_own_operations_are_reported():
    polls = {"contoso": 59_520, "fabrikam": 29_760}
    made = month("2026-10", 0, 50 * MILLION, send_backlog=MILLION, syphon_receive_empty=polls["contoso"])
    other_pair(made, send_backlog=5 * MILLION, syphon_receive_empty=polls["fabrikam"])
    found = {name: report("2026-10", Filters(pair=name)) for name in ("contoso", "fabrikam", "")}
    added = {name: each.failover for name, each in found.items() if each}
    assert {name: dict(each.operations) for name, each in added.items()} == {
        "contoso": {"outages": MILLION, "idle": polls["contoso"]},
        "fabrikam": {"outages": 5 * MILLION, "idle": polls["fabrikam"]},
        "": {"outages": 6 * MILLION, "idle": 89_280},
    }
    assert added["contoso"].money + added["fabrikam"].money == added[""].money == Fraction("0.8") * 6_089_280 / MILLION


def test_the_chart_of_failover_sums_to_its_cost():
    made = month("2026-10", 400, 50 * MILLION, send_backlog=6 * MILLION, ping=MILLION)
    for number, kind, units in ((1, "send_backlog", 4), (2, "send_backlog", 2), (2, "ping", 1), (2, "syphon_send", 9)):
        counts = {"operations": units * MILLION, "billing_units": units * MILLION, "exact": "0"}
        DailyCharge.objects.create(invoice=made, date=date(2026, 10, number), kind=kind, **counts)
    found = report("2026-10")
    assert found.failover_chart.totals == ["4.80", "0.80"]
    assert found.failover.cents == 560


def test_the_chart_of_days_says_that_it_is_of_all_pairs(as_role):
    made = month("2026-10", 400, 20 * MILLION, send=MILLION)
    counts = {"operations": 5, "billing_units": 5, "exact": "0.4"}
    DailyCharge.objects.create(invoice=made, date=date(2026, 10, 1), kind="send", **counts)
    viewer = as_role("viewer")
    assert "Of all pairs together" in viewer.get("/costs/", {"month": "2026-10", "pair": "contoso"}).text
    assert "Of all pairs together" not in viewer.get("/costs/", {"month": "2026-10"}).text


def test_a_month_is_compared_with_the_one_before_if_that_is_in_the_same_currency():
    month("2026-09", 2_000, MILLION, send=MILLION)
    found = change("2026-10", "", 2_500, "USD")
    assert (found.month, found.total, found.difference, found.percent) == ("2026-09", 2_000, 500, 25)
    assert change("2026-09", "", 2_000, "USD") is None

    Invoice.objects.update(currency="EUR")
    assert change("2026-10", "", 2_500, "USD") is None
    assert change("2026-10", "", 2_500, "EUR") is not None


def day_of(invoice: Invoice, number: int, exact: str) -> None:
    counts = {"operations": 5, "billing_units": 5, "exact": exact}
    at = Month.parse(invoice.month).start.date().replace(day=number)
    DailyCharge.objects.create(invoice=invoice, date=at, kind="send", **counts)


def test_a_month_that_is_not_over_is_compared_by_its_whole_days_and_goes_on_as_it_began():
    before, made = (month(name, 1_560, 20 * MILLION, send=20 * MILLION) for name in ("2026-09", "2026-10"))
    Invoice.objects.update(exact="15.60")
    Charge.objects.filter(invoice=made).update(kind="base", exact="10")
    for invoice, number, exact in (
        (before, 10, "2"),
        (before, 11, "9"),
        (made, 1, "3"),
        (made, 10, "1"),
        (made, 11, "5"),
    ):
        day_of(invoice, number, exact)
    ChargeRun.objects.filter(month="2026-10").update(started_at=datetime(2026, 10, 11, tzinfo=UTC))

    found = report("2026-10")
    assert (found.change.days, found.change.total, found.change.difference) == (10, 200, 200)
    assert found.expected == 1_560 + 42 * 80  # 42 million more operations in the 21 days that are left
    assert report("2026-09").expected is None


def test_tags_of_pairs_sum_costs_and_filter_the_overview(pair, redis_here, alive, as_role, settings, tmp_path):
    settings.PAIRS_FILE = tmp_path / "pairs.toml"
    settings.PAIRS_FILE.write_text(PAIRS + 'tags = { team = "shop" }')
    other_pair(month("2026-10", 300, 0, send=5), ping=1)

    ((key, of_values),) = report("2026-10").by_tag
    assert (key, [(one.name, one.cents) for one in of_values]) == ("team", [("shop", 300), ("—", 0)])
    pages = {tag: as_role("viewer").get("/", {"tag": tag}).text for tag in ("team: shop", "team: other")}
    assert {tag: page.count('data-entity="orders"') for tag, page in pages.items()} == {
        "team: shop": 1,
        "team: other": 1,
    }
    assert "Tag “team: other” cannot be read" in pages["team: other"]


def test_the_report_narrows_down_to_a_kind_and_an_entity():
    month("2026-10", 560, 20 * MILLION, send=20 * MILLION, ping=5)
    pings = report("2026-10", Filters(kind="ping"))
    assert pings is not None
    assert ([share.name for share in pings.by_kind], pings.total) == (["ping"], 0)
    nothing = report("2026-10", Filters(entity="payments"))
    assert (nothing.total, nothing.rows.count()) == (0, 0)


def day(number: int, group: str, cents: int, operations: int = 5) -> DayOf:
    return DayOf(date(2026, 10, number), group, operations, Fraction(cents, 100))


def test_the_chart_draws_a_bar_for_each_day_and_group_and_shows_the_numbers():
    chart = days_chart(
        "2026-10", [day(1, "outages", 50), day(1, "outages", 50), day(1, "pings", 25), day(31, "outages", 10)], "USD"
    )
    assert chart.svg.count("<rect") == 3
    assert chart.keys[0] == ("outages", "Outages", "1.00 0.10")
    assert (chart.stops, chart.labels, chart.unit) == ("0.5 30.5", "2026-10-01|2026-10-31", "USD")
    assert chart.rows == [(date(2026, 10, 1), ["1.00", "0.25"]), (date(2026, 10, 31), ["0.10", "0.00"])]


def test_a_day_of_less_than_a_cent_is_said_to_be_and_the_month_is_summed_before_rounding():
    days = [DayOf(date(2026, 10, number), "outages", 5, Fraction("0.0049")) for number in range(1, 31)]
    chart = days_chart("2026-10", [*days, day(31, "pings", 125)], "USD")
    assert chart.rows[0] == (date(2026, 10, 1), ["<0.01", "0.00"])
    assert chart.totals == ["0.15", "1.25"]


def test_the_chart_shows_operations_while_everything_is_included():
    chart = days_chart("2026-10", [day(1, "operations", 0, 1_234)], "USD")
    assert (chart.of_money, chart.rows) == (False, [(date(2026, 10, 1), ["1,234"])])
    assert days_chart("2026-10", [day(1, "operations", 0, 0)], "USD") is None


def test_the_cost_of_failover_is_rounded_once():
    """0.004 for operations and 0.004 for bytes are 0.01 together, and each of them 0.00."""
    made = month("2026-10", 0, 20 * MILLION, send_backlog=5_000)
    Charge.objects.create(
        invoice=made, pair="contoso", namespace="contoso-dr", entity="orders", kind="bandwidth", operations=0,
        billing_units=0, included_units=0, quantity="0.2", exact="0.004", cents=0,
    )  # fmt: skip
    found = report("2026-10")
    added = found.failover
    assert (added.parts["outages"], added.bandwidth, added.cents) == (Fraction("0.004"), Fraction("0.004"), 1)


def test_a_month_that_runs_is_said_not_to_be_over(as_role):
    now = timezone.now()
    this = Month.of(now)
    current, before = str(this), str(this.previous)
    for name, cents in ((str(this.previous.previous), 1_000), (before, 2_000), (current, 1_000)):
        month(name, cents, 0, send=MILLION)
    viewer = as_role("viewer")
    pages = {name: one_line(viewer.get("/costs/", {"month": name}).text) for name in (current, before)}
    assert f"It came to 20.00. {current} is not over yet." in pages[current]
    assert "−50 %" in pages[current]
    assert "is not over yet" not in pages[before]
