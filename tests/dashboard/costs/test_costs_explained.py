"""Every row of the report tells its rule, price rows, tiers and counts; their amounts sum to its exact share."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from dashboard.costs.explanation import explain
from dashboard.costs.storing import store
from dashboard.models import Charge, Invoice
from tests.dashboard.costs.test_costs import BASE, RUN, invoice, line, new_run
from tests.dashboard.markup import one_line

MILLION = 1_000_000
OPERATIONS = "Standard Messaging Operations"


def price(meter: str, unit: str, start: str, amount: str) -> dict[str, str]:
    return {"meter": meter, "unit": unit, "from": start, "price": amount, "currency": "USD"}


DETAILS = {
    "prices": [
        price("Standard Base Unit", "1/Hour", "0", "0.013441"),
        price(OPERATIONS, "1M", "0.0", "0.0"),
        price(OPERATIONS, "1M", "13.0", "0.8"),
        price("Standard Brokered Connection", "1", "0", "0.0"),
        price("Standard Brokered Connection", "1", "1000", "0.03"),
        price("Basic Messaging Operations", "1M", "0", "0.05"),
    ]
}


def row(kind: str = "send", *, rule: str = "published", allocation: str = "time", **fields: Any) -> Charge:
    known: dict[str, Any] = {"namespace": "contoso", "quantity": "0", "tiers": []}
    return Charge(invoice=Invoice(rule=rule, allocation=allocation), kind=kind, **known | fields)


def test_operations_show_how_many_fell_into_which_tier_at_which_price() -> None:
    reported = explain(row(tiers=[13 * MILLION, 7 * MILLION]), DETAILS)
    assert "published" in reported.rule
    assert [(step.count, step.tier, step.price) for step in reported.steps] == [
        ("13,000,000", "from 0 × 1M", "0 USD per 1M"), ("7,000,000", "from 13 × 1M", "0.8 USD per 1M"),
    ]  # fmt: skip
    assert sum(step.amount or 0 for step in reported.steps) == Fraction(560, 100)


def test_a_settlement_that_is_not_billed_says_so() -> None:
    assert "not billed" in explain(row("settle"), DETAILS).rule
    assert explain(row("settle", rule="settlements", tiers=[5]), DETAILS).steps[0].count == "5"


def test_under_pro_rata_a_tier_is_shared_so_it_has_no_amount_of_its_own() -> None:
    reported = explain(row(allocation="pro-rata", tiers=[0, 100]), DETAILS)
    assert "shared in proportion to units" in reported.rule
    assert reported.steps[0].amount is None


def test_basic_and_premium_operations_stand_beside_the_ladder() -> None:
    reported = explain(row(tiers=[0, 0, MILLION, 5]), DETAILS)
    assert [(step.meter, step.amount) for step in reported.steps] == [
        ("Basic Messaging Operations", Fraction(5, 100)), ("Premium", None),
    ]  # fmt: skip


def test_the_base_charge_shows_its_hours_and_ignores_the_monthly_row() -> None:
    monthly = price("Standard Base Unit", "1/Month", "0", "10")
    reported = explain(row("base", namespace="$system", quantity="744.0"), {"prices": [monthly, *DETAILS["prices"]]})
    assert [(step.count, step.amount) for step in reported.steps] == [("744 hours", Fraction("10.000104"))]


@pytest.mark.parametrize(("quantity", "tiers"), [("0", 0), ("42.5", 1), ("1500", 2)])
def test_connections_show_the_tiers_they_reach_and_that_processes_peaks_are_an_upper_bound(
    quantity: str, tiers: int
) -> None:
    reported = explain(row("connections", quantity=quantity), DETAILS)
    assert len(reported.steps) == tiers
    assert "upper bound" in reported.rule


@pytest.mark.django_db
def test_the_page_shows_it_at_the_charge(tmp_path: Path, as_role: Any) -> None:
    tiered = line("send", 560, units=20 * MILLION) | {"tiers": [13 * MILLION, 7 * MILLION]}
    path = tmp_path / "result.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in [RUN, invoice("published", 1_560), tiered, BASE]))
    store(new_run(), path)
    page = as_role("viewer").get("/costs/", {"month": "2026-10"}).content.decode()
    assert "7,000,000: Standard Messaging Operations, from 13 × 1M, 0.8 USD per 1M = 5.60" in one_line(page)
