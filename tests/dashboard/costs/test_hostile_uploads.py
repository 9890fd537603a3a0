"""Files made to harm: bombs, deep and huge and doubled values; each is refused with a sentence, in bounded time."""

import io

import pytest

from dashboard.costs.bill.statements import LONGEST_FIELD, read_export, resource_of
from tests.dashboard.costs.test_costs_statements import RESOURCE, rows
from tests.dashboard.costs.test_costs_statements import line as billed
from tests.pace import Stopwatch

pytestmark = pytest.mark.slow

MONTH = "2026-10"


HUGE = "9" * 5000
NUMBERS = ["NaN", "-NaN", "sNaN", "Infinity", "-Infinity", "1e999999999", "1e-999999999", HUGE, f"0.{HUGE}", "0x10"]


UNITS = (f"{'0' * 11}1{HUGE}", HUGE, f"{HUGE} M", "0", "-1M", "1MM", "١٢M" * 10)


def test_a_number_or_a_unit_that_no_bill_has_is_counted_as_unreadable_or_unknown():
    numbers, units = ([billed(quantity=one) for one in NUMBERS], [billed(unit=one) for one in UNITS])
    parsed = read_export(io.BytesIO(rows(billed(quantity="1"), *numbers, *units).encode()), MONTH)

    skipped = {"with an unreadable number": len(NUMBERS), "in an unknown unit": len(UNITS)}
    assert (parsed.rows, dict(parsed.skipped)) == (1, skipped)


SLOW = [
    "/subscriptions/a/" * 3800,
    "/subscriptions/a/" * 1900 + "/providers/" * 2900,
    "/subscriptions/a/" + "/providers/microsoft.servicebus/namespaces/" * 1500 + "!",
    "/subscriptions/a/providers/microsoft.servicebus/namespaces/" + "n" * 60_000 + "!",
]


@pytest.mark.parametrize("resource", SLOW, ids=range(len(SLOW)))
def test_no_resource_id_takes_more_time_than_its_length(resource):
    """A single one took four seconds before, and an upload has room for a thousand."""
    assert len(resource) < LONGEST_FIELD
    with Stopwatch() as watch:
        for _ in range(20):
            assert resource_of(resource) is None
    assert watch.took < 10


@pytest.mark.parametrize(
    ("resource", "found"),
    [
        (RESOURCE, True),
        ("/subscriptions/S/x/providers/Microsoft.ServiceBus/namespaces/N", ("s", "n")),
        ("/subscriptions/S/x/providers/Microsoft.ServiceBus/namespaces/N/queues/q", ("s", "n")),
        ("/subscriptions/S/providers/Microsoft.ServiceBus/namespaces/N", None),
        ("/subscriptions/S/x/providers/Microsoft.ServiceBus/namespaces/N!", None),
        ("/providers/Microsoft.ServiceBus/namespaces/N/subscriptions/S/x", None),
        ("", None),
    ],
)
def test_the_namespace_of_a_resource_is_found(resource, found):
    assert (bool(resource_of(resource)) if found is True else resource_of(resource)) == found


def test_many_long_numbers_are_not_added_up():
    """Exact sums of thousands of numbers with 60,000 digits each would take minutes."""
    long = billed(quantity=f"0.{'7' * 60_000}")
    with Stopwatch() as watch:
        parsed = read_export(io.BytesIO(rows(billed(quantity="1"), *([long] * 300)).encode()), MONTH)
    assert (parsed.rows, sum(parsed.skipped.values())) == (1, 300)
    assert watch.took < 10
