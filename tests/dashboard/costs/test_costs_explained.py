"""Every row of the report tells its rule, price rows, tiers and counts; their amounts sum to its exact share."""

from fractions import Fraction
from typing import Any

import pytest

from dashboard.costs.reporting.explanation import explain
from dashboard.costs.runs.storing import store
from dashboard.models import Charge, Invoice
from dashboard.site.money import cents, exact_text, unrounded
from tests.dashboard.costs.test_costs import RUN, invoice, line, new_run
from tests.dashboard.markup import costs_of, one_line
from tests.dashboard.results import result_of

MILLION = 1_000_000
OPERATIONS = "Standard Messaging Operations"


def price(meter: str, unit: str, start: str, amount: str) -> dict[str, str]:
    return {"meter": meter, "unit": unit, "from": start, "price": amount, "currency": "USD"}


DETAILS = {
    "hours_in_month": 744,
    "prices": [
        price("Standard Base Unit", "1/Hour", "0", "0.013441"),
        price(OPERATIONS, "1M", "0.0", "0.0"),
        price(OPERATIONS, "1M", "13.0", "0.8"),
        price("Standard Brokered Connection", "1", "0", "0.0"),
        price("Standard Brokered Connection", "1", "1000", "0.03"),
        price("Basic Messaging Operations", "1M", "0", "0.05"),
    ],
}


def row(kind: str = "send", *, rule: str = "published", allocation: str = "time", **fields: Any) -> Charge:
    known: dict[str, Any] = {"namespace": "contoso", "quantity": "0", "tiers": []}
    whole = fields.pop("of_scope", [])
    return Charge(invoice=Invoice(rule=rule, allocation=allocation, tiers=whole), kind=kind, **known | fields)


def test_operations_show_how_many_fell_into_which_tier_at_which_price():
    reported = explain(row(tiers=[13 * MILLION, 7 * MILLION]), DETAILS)
    assert "published" in reported.rule
    assert [(step.count, step.tier, step.price) for step in reported.steps] == [
        ("13,000,000", "from 0 × 1M", "0 USD per 1M"), ("7,000,000", "from 13 × 1M", "0.8 USD per 1M"),
    ]  # fmt: skip
    assert sum(step.amount or 0 for step in reported.steps) == Fraction(560, 100)


def test_a_settlement_that_is_not_billed_says_so():
    assert "not billed" in explain(row("settle"), DETAILS).rule
    assert explain(row("settle", rule="settlements", tiers=[5]), DETAILS).steps[0].count == "5"


def test_under_pro_rata_the_scopes_charge_and_the_rows_share_of_it_are_shown():
    shared = row(allocation="pro-rata", tiers=[0, 2 * MILLION], of_scope=[13 * MILLION, 7 * MILLION])
    reported = explain(shared, DETAILS)
    assert "shared in proportion to units" in reported.rule
    assert reported.scope_count == "20,000,000 operations"
    assert [(step.count, step.amount) for step in reported.scope_steps] == [
        ("13,000,000", 0), ("7,000,000", Fraction(560, 100)),
    ]  # fmt: skip
    assert [(step.count, step.amount) for step in reported.steps] == [
        ("5.60 × 2,000,000 / 20,000,000", Fraction(56, 100)),
    ]  # fmt: skip


def test_a_row_without_billed_units_has_no_share():
    reported = explain(row(allocation="pro-rata", tiers=[0, 0], of_scope=[13 * MILLION, 0]), DETAILS)
    assert (reported.scope_count, list(reported.steps)) == ("", [])


def test_basic_and_premium_operations_stand_beside_the_ladder():
    reported = explain(row(tiers=[0, 0, MILLION, 5]), DETAILS)
    assert [(step.meter, step.amount) for step in reported.steps] == [
        ("Basic Messaging Operations", Fraction(5, 100)), ("Premium", None),
    ]  # fmt: skip


def test_the_base_charge_shows_its_hours_and_ignores_the_monthly_row():
    monthly = price("Standard Base Unit", "1/Month", "0", "10")
    reported = explain(row("base", namespace="$system", quantity="744.0"), {"prices": [monthly, *DETAILS["prices"]]})
    assert [(step.count, step.amount) for step in reported.steps] == [("744 hours", Fraction("10.000104"))]


@pytest.mark.parametrize(("quantity", "tiers"), [("0", 0), ("42.5", 1), ("1500", 2)])
def test_connections_show_the_tiers_they_reach_and_that_processes_peaks_are_an_upper_bound(quantity, tiers):
    reported = explain(row("connections", quantity=quantity), DETAILS, Fraction(quantity))
    assert len(reported.scope_steps) == tiers
    assert "upper bound" in reported.rule


def test_bandwidth_shows_its_price_per_gb_and_what_that_comes_to():
    crossed = row("bandwidth", quantity="38.5", exact="0.77")
    crossed.invoice.currency = "USD"
    step = explain(crossed, DETAILS).steps[0]
    assert (step.count, step.price, step.amount) == ("38.5 GB", "0.02 USD per GB on average", Fraction("0.77"))


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        ("0", "0.00"),
        ("5.6", "5.60"),
        ("1234.5678901", "1,234.56789"),
        ("-0.25", "-0.25"),
        ("0.0000008", "0.0000008000"),
    ],
)
def test_an_amount_to_calculate_with_keeps_its_decimals(amount, shown):
    assert unrounded(Fraction(amount)) == shown


@pytest.mark.django_db
def test_the_charge_for_connections_can_be_calculated_by_hand_from_the_page(tmp_path, as_role):
    averages = {"contoso": Fraction(900_000, 744), "contoso-dr": Fraction(111_111, 744)}
    share = (sum(averages.values()) - 1000) * Fraction("0.03") / sum(averages.values())
    rows = [
        line("connections", cents(average * share), "*", name)
        | {"pair": "", "quantity": exact_text(average), "exact": exact_text(average * share)}
        for name, average in averages.items()
    ]
    elsewhere = [invoice("published", 0, "sub-2"), line("connections", 0, "*", "fabrikam")]
    store(new_run(), result_of(tmp_path, [RUN | DETAILS, invoice("published", 1_077), *rows, *elsewhere]))
    page = one_line(costs_of(as_role("viewer"), month="2026-10"))
    for text in (
        "divided by the 744 hours",
        "The billing scope sub: 1,359.02 connections on average",
        "1,000: Standard Brokered Connection, from 0, 0 USD = 0.00",
        "359.02: Standard Brokered Connection, from 1000, 0.03 USD = 10.770605",
        "10.770605 × 1,209.677 / 1,359.02 = 9.587023",
    ):
        assert text in page
