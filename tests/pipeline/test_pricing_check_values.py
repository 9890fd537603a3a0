"""The published check values (docs/pricing.md, sections 5, 6 and 9), computed without Spark."""

from fractions import Fraction

import pytest

from pipeline.allocation import round_half_up
from pipeline.invoice import Connections, Line, Terms, invoice
from pipeline.jobs.charges import SAMPLE_PRICES
from pipeline.months import Month
from pipeline.price_tiers import Price, Tier
from pipeline.prices import read_prices

OCTOBER = Month.parse("2026-10")
PRICES = read_prices(SAMPLE_PRICES, OCTOBER)
MILLION = 1_000_000
KILOBYTE = 1024


def cents(amount: Fraction) -> str:
    whole = round_half_up(amount * 100)
    return f"{whole // 100}.{whole % 100:02d}"


def units_of(size: int) -> int:
    return max(1, -(-size // 65_536))


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
    assert PRICES.connections is not None
    assert cents(PRICES.connections.charge(Fraction(peak_hours) / divisor)) == charge


def test_hours_of_the_month_can_be_given() -> None:
    terms = Terms(month=OCTOBER, prices=PRICES, hours_in_month=730)
    made = invoice(terms, "sub", [], [Connections(namespace="contoso", hours=5_000 * 12 * 61 // 2)])
    assert made.cents == 4_521


@pytest.mark.parametrize(
    ("queues", "hosts", "days", "polls", "charge"),
    [
        (1, 1, 30, 2_880, "0.0023"),
        (5, 1, 30, 14_400, "0.0115"),
        (10, 1, 30, 28_800, "0.0230"),
        (10, 1, 31, 29_760, "0.0238"),
        (10, 3, 30, 86_400, "0.0691"),
        (10, 10, 30, 288_000, "0.2304"),
        (100, 10, 30, 2_880_000, "2.3040"),
    ],
)
def test_an_idle_syphon_polls_four_times_an_hour_and_queue(
    queues: int, hosts: int, days: int, polls: int, charge: str
) -> None:
    assert queues * hosts * 4 * 24 * days == polls
    at_full_price = PRICES.operations.after(13 * MILLION).extra(polls)
    assert f"{float(at_full_price):.4f}" == charge


@pytest.mark.parametrize(
    ("polls", "charge"),
    [(44_640, "0.04"), (432_000, "0.35"), (25_920_000, "20.74")],
    ids=["1 min, 31 d", "60 s", "1 s"],
)
def test_shorter_polls_cost_more_once_the_allowance_is_used(polls: int, charge: str) -> None:
    assert cents(PRICES.operations.after(13 * MILLION).extra(polls)) == charge


def test_one_second_polls_alone_exceed_the_allowance() -> None:
    assert cents(PRICES.operations.charge(25_920_000)) == "10.34"


@pytest.mark.parametrize(
    ("minutes", "entities", "clients", "pings", "charge"),
    [(180, 1, 1, 180, "0.0001"), (180, 5, 20, 18_000, "0.0144"), (180, 100, 50, 900_000, "0.7200")],
)
def test_pings_of_an_outage(minutes: int, entities: int, clients: int, pings: int, charge: str) -> None:
    assert minutes * entities * clients == pings
    assert f"{float(PRICES.operations.after(13 * MILLION).extra(pings)):.4f}" == charge


@pytest.mark.parametrize(
    ("size", "published", "settlements"), [(64 * KILOBYTE, 4, 6), (70 * KILOBYTE, 8, 10), (200 * KILOBYTE, 16, 18)]
)
def test_a_syphoned_message_takes_four_transfers_and_two_settlements(
    size: int, published: int, settlements: int
) -> None:
    transfers = 4 * units_of(size)
    assert (transfers, transfers + 2) == (published, settlements)


OUTAGE = {"published": (8_003_720, 4_000_000), "settlements": (10_003_720, 5_000_000)}
BASIC = Price((Tier(0, Fraction(5, 100 * MILLION)),))


@pytest.mark.parametrize(
    ("ladder", "used", "total", "extra"),
    [
        pytest.param(PRICES.operations, 0, ("0.00", "0.00"), ("0.00", "0.00"), id="inside the allowance"),
        pytest.param(PRICES.operations, 13 * MILLION, ("6.40", "8.00"), ("3.20", "4.00"), id="at 0.80"),
        pytest.param(PRICES.operations, 100 * MILLION, ("4.00", "5.00"), ("2.00", "2.50"), id="at 0.50"),
        pytest.param(PRICES.operations, 2_500 * MILLION, ("1.60", "2.00"), ("0.80", "1.00"), id="at 0.20"),
        pytest.param(BASIC, 0, ("0.40", "0.50"), ("0.20", "0.25"), id="Basic"),
    ],
)
def test_a_three_hour_outage_costs_what_its_place_in_the_month_says(
    ladder: Price, used: int, total: tuple[str, str], extra: tuple[str, str]
) -> None:
    for place, (with_outage, without) in enumerate(OUTAGE.values()):
        bill = ladder.after(used)
        assert cents(bill.extra(with_outage)) == total[place]
        assert cents(bill.extra(with_outage) - bill.extra(without)) == extra[place]


def test_an_outage_that_straddles_the_allowance_is_billed_in_part() -> None:
    assert PRICES.operations.spread(10 * MILLION, 8_003_720)[1] == 5_003_720
    assert cents(PRICES.operations.after(10 * MILLION).extra(8_003_720)) == "4.00"


def test_forty_two_connections_cost_nothing() -> None:
    usage = [Line(namespace="contoso", entity="orders", kind="send", units=1, tiers=(1, 0, 0, 0))]
    terms = Terms(month=OCTOBER, prices=PRICES)
    made = invoice(terms, "sub", usage, [Connections(namespace="contoso", hours=42 * 744)])
    assert {line.kind: line.cents for line in made.lines} == {"send": 0, "connections": 0, "base": 1_000}
