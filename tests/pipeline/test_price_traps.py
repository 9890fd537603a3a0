"""The six traps of a price list (docs/pricing.md, section 10), each by the bill of one month that falls into it.

The month: 150 million operations of a queue and a topic in October, 94.60 by the ladder, and 10.00 for 744 base hours.
"""

from fractions import Fraction
from typing import Any

import pytest

from pipeline.invoice import Invoice, Line, Terms, invoice
from pipeline.jobs.prices import SAMPLE_PRICES
from pipeline.months import Month
from pipeline.prices import parse_items, price_list

OCTOBER = Month.parse("2026-10")
BASE, OPERATIONS = "Standard Base Unit", "Standard Messaging Operations"
MILLION = 1_000_000
Item = dict[str, Any]


def items() -> list[Item]:
    return list(parse_items(SAMPLE_PRICES.read_text()))


def of(meter: str, rows: list[Item]) -> list[Item]:
    return [row for row in rows if row["meterName"] == meter]


def billed(rows: list[Item]) -> Invoice:
    """100 million operations of the queue, then 50 million of the topic."""
    usage = [
        Line(namespace="contoso", entity=entity, kind="send", units=sum(tiers), tiers=tiers)
        for entity, tiers in (("orders", (13 * MILLION, 87 * MILLION, 0, 0)), ("shipments", (0, 0, 50 * MILLION, 0)))
    ]
    return invoice(Terms(month=OCTOBER, prices=price_list(rows, OCTOBER)), "sub", usage, [])


def parts(made: Invoice) -> dict[str, int]:
    """Cents of the base charge and of the operations."""
    base = sum(line.cents for line in made.lines if line.kind == "base")
    return {"base": base, "operations": made.cents - base}


RIGHT = {"base": 1_000, "operations": 9_460}


def test_the_sample_holds_every_row_that_sets_a_trap() -> None:
    assert sorted(row["unitOfMeasure"] for row in of(BASE, items())) == ["1/Hour", "1/Month"]
    assert [float(row["tierMinimumUnits"]) for row in of(OPERATIONS, items())] == [0.0, 13.0, 100.0, 2500.0]
    assert float(of(OPERATIONS, items())[0]["retailPrice"]) == 0.0
    assert parts(billed(items())) == RIGHT


@pytest.mark.parametrize("backwards", [False, True])
def test_trap_1_the_monthly_row_of_the_base_unit_neither_doubles_nor_replaces_the_hourly_one(backwards: bool) -> None:
    rows = sorted(items(), key=lambda row: str(row["unitOfMeasure"]), reverse=backwards)
    assert parts(billed(rows))["base"] == 1_000


@pytest.mark.parametrize("backwards", [False, True])
def test_trap_2_all_tiers_count_not_the_first_and_not_the_first_that_costs_something(backwards: bool) -> None:
    rows = sorted(items(), key=lambda row: float(row["tierMinimumUnits"]), reverse=backwards)
    prices = price_list(rows, OCTOBER).operations
    assert prices.starts == (0, 13 * MILLION, 100 * MILLION, 2_500 * MILLION)
    assert [float(tier.price * MILLION) for tier in prices.tiers] == [0.0, 0.8, 0.5, 0.2]
    assert parts(billed(rows)) == RIGHT


@pytest.mark.parametrize("spelling", ["1/Hour", "1 Hour", "1/hour", "1 hours"])
def test_trap_3_an_hour_is_an_hour_however_it_is_spelt(spelling: str) -> None:
    rows = [row | {"unitOfMeasure": spelling} if row["unitOfMeasure"] == "1/Hour" else row for row in items()]
    assert price_list(rows, OCTOBER).base_per_hour == Fraction("0.013441")
    assert parts(billed(rows)) == RIGHT


@pytest.mark.parametrize("kind", ["Reservation", "DevTestConsumption"])
def test_trap_4_reservations_and_development_prices_are_left_out(kind: str) -> None:
    cheap = [row | {"type": kind, "retailPrice": row["retailPrice"] / 10} for row in items()]
    assert parts(billed([*cheap, *items()])) == RIGHT


@pytest.mark.parametrize("which", [lambda row: True, lambda row: row["meterName"] == OPERATIONS], ids=["all", "some"])
def test_trap_5_a_region_that_is_not_primary_is_priced_all_the_same(which: Any) -> None:
    rows = [row | {"isPrimaryMeterRegion": not which(row)} for row in items()]
    assert parts(billed(rows)) == RIGHT


def test_trap_6_queues_and_topics_climb_one_ladder_with_one_allowance() -> None:
    made = billed(items())
    assert {line.entity: (line.included, line.cents) for line in made.lines if line.kind == "send"} == {
        "orders": (13 * MILLION, 6_960), "shipments": (0, 2_500),
    }  # fmt: skip
    ladder = price_list(items(), OCTOBER).operations
    two_ladders = ladder.charge(100 * MILLION) + ladder.charge(50 * MILLION)
    assert (float(two_ladders), parts(made)["operations"]) == (99.20, 9_460)
