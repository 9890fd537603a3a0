"""The published check values (docs/pricing.md, sections 5, 6 and 9), computed without Spark."""

from fractions import Fraction

import pytest

from pipeline.allocation import round_half_up
from pipeline.invoice import Connections, Terms, invoice
from pipeline.jobs.charges import SAMPLE_PRICES
from pipeline.months import Month
from pipeline.prices import read_prices

OCTOBER = Month.parse("2026-10")
PRICES = read_prices(SAMPLE_PRICES, OCTOBER)
MILLION = 1_000_000


def cents(amount: Fraction) -> str:
    whole = round_half_up(amount * 100)
    return f"{whole // 100}.{whole % 100:02d}"


@pytest.mark.parametrize(
    ("operations", "charge"),
    [
        (0, "0.00"),
        (13 * MILLION, "0.00"),
        (20 * MILLION, "5.60"),
        (99 * MILLION, "68.80"),
        (100 * MILLION, "69.60"),
        (150 * MILLION, "94.60"),
        (2_500 * MILLION, "1269.60"),
        (3_000 * MILLION, "1369.60"),
    ],
)
def test_operations_of_a_month_cost_what_the_tiers_they_fill_cost(operations: int, charge: str) -> None:
    assert cents(PRICES.operations.charge(operations)) == charge


@pytest.mark.parametrize("boundary", [13 * MILLION, 100 * MILLION, 2_500 * MILLION])
def test_the_unit_before_a_boundary_has_the_lower_tiers_price_and_the_unit_after_it_the_higher(boundary: int) -> None:
    ladder = PRICES.operations
    before = ladder.charge(boundary) - ladder.charge(boundary - 1)
    after = ladder.charge(boundary + 1) - ladder.charge(boundary)
    assert (before, after) == (ladder.after(boundary - 1).rate, ladder.after(boundary).rate)
    assert before != after


@pytest.mark.parametrize(("hours", "charge"), [(672, "9.03"), (720, "9.68"), (730, "9.81"), (744, "10.00")])
def test_the_base_unit_costs_its_hours(hours: int, charge: str) -> None:
    assert cents(PRICES.base_per_hour * hours) == charge


@pytest.mark.parametrize(
    ("peak_hours", "divisor", "charge"),
    [
        pytest.param(Fraction(5_000 * 12 * 61, 2), 730, "45.21", id="5,000 clients, 12 h a day, 30.5 days, 730 h"),
        pytest.param(10_000 * 12 * 31, 744, "120.00", id="10,000 clients, 12 h a day, 31 days, 744 h"),
        pytest.param(200_000 * 744, 744, "5470.00", id="200,000 all month"),
        pytest.param(1_000 * 744, 744, "0.00", id="what is included"),
    ],
)
def test_connections_are_prorated_before_the_included_ones_are_taken_off(
    peak_hours: Fraction, divisor: int, charge: str
) -> None:
    assert cents(PRICES.connections.charge(Fraction(peak_hours) / divisor)) == charge


def test_hours_of_the_month_can_be_given() -> None:
    terms = Terms(month=OCTOBER, prices=PRICES, hours_in_month=730)
    made = invoice(terms, "sub", [], [Connections(namespace="contoso", hours=5_000 * 12 * 61 // 2)])
    assert made.cents == 4_521


@pytest.mark.parametrize(
    ("operations", "charge"),
    [
        pytest.param(2_880, "0.0023", id="a host polls one idle queue for 30 days"),
        pytest.param(29_760, "0.0238", id="a host polls ten queues for 31 days"),
        pytest.param(2_880_000, "2.3040", id="ten hosts poll a hundred queues for 30 days"),
        pytest.param(25_920_000, "20.7360", id="ten queues polled each second for 30 days"),
        pytest.param(900_000, "0.7200", id="pings of 100 entities by 50 clients for three hours"),
    ],
)
def test_operations_beyond_the_allowance_have_the_price_of_their_tier(operations: int, charge: str) -> None:
    assert f"{float(PRICES.operations.after(13 * MILLION).extra(operations)):.4f}" == charge
