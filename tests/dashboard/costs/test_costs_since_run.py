"""What the costs page says of the time since the last run of the month."""

from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest

from dashboard.costs.reporting.live_outages import live_outages
from dashboard.costs.reporting.since_run import not_priced
from dashboard.fleet.state import projection
from dashboard.fleet.usage import metered
from dashboard.models import Availability, Charge, ChargeRun, Invoice, Outage
from dashboard.models.charge import PUBLISHED
from dashboard.templatetags.costs import small_money
from tests.dashboard.fleet.test_metered import record
from tests.dashboard.fleet.test_projection import event
from tests.dashboard.markup import costs_of, one_line

pytestmark = [pytest.mark.django_db, pytest.mark.postgres_nightly]
NOW = datetime.now(UTC)
MINUTE = timedelta(minutes=1)
OPERATIONS = {"meter": "Standard Messaging Operations", "unit": "1M", "currency": "EUR"}
PRICES = [OPERATIONS | {"from": "0", "price": "0.8", "effective": "2026-01-01"}]
COUNTS = dict.fromkeys(("read", "accepted", "copies", "quarantined"), 0)


@pytest.fixture
def computed(pair) -> ChargeRun:
    """A run half an hour ago that priced a million operations, and one outage that went on."""
    at = NOW - MINUTE * 30
    if at.month != NOW.month:
        pytest.skip("the run would be of the month before")
    run = ChargeRun.objects.create(
        month=f"{at:%Y-%m}",
        status="succeeded",
        started_at=at,
        heard_at=at,
        finished_at=at,
        details={"prices": PRICES, "sample_prices": False, "counts": COUNTS},
    )
    invoice = Invoice.objects.create(
        run=run, month=run.month, scope="north", rule=PUBLISHED, allocation="time", currency="EUR",
        cents=80, exact="0.8", units=1_000_000, tiers=[1_000_000],
    )  # fmt: skip
    Charge.objects.create(
        invoice=invoice, pair="contoso", namespace="contoso", entity="orders", kind="send", operations=1_000_000,
        billing_units=1_000_000, included_units=0, quantity="1", exact="0.8", cents=80,
    )  # fmt: skip
    began = at - MINUTE * 10
    Outage.objects.create(
        run=run, month=run.month, pair="contoso", entity="orders", started_at=began, cause="failed_over",
        reason="no answer", down_s=600, extra={PUBLISHED: 10, "places": []},
    )  # fmt: skip
    Availability.objects.create(
        month=run.month, pair="contoso", entity="orders", episodes=1, down_s=600, period_s=36_000
    )
    projection.record_events(
        [
            event("1" * 32, "failed_over", time=began),
            event("2" * 32, "recovered", time=at + MINUTE * 10),
            event("3" * 32, "failed_over", time=NOW - MINUTE),
        ]
    )
    return run


def test_operations_since_the_run_are_estimated_at_its_prices_and_earlier_ones_are_not(computed):
    reports = [record(NOW - MINUTE * ago, 1000) for ago in (40, 20, 10)]
    reports += [record(NOW - MINUTE * 10, 500, kind="settle")]
    metered.store(reports, NOW)
    found = not_priced(list(Invoice.objects.all()))
    assert (found.operations, dict(found.units)) == (2500, {"send": 2000, "settle": 500})
    assert found.money == Fraction(2000 * 8, 10**7)


def test_outages_are_as_the_events_tell_them_now(computed):
    found = live_outages(computed.month, "", [], computed.started_at, NOW)
    assert [(one.outage.entity, one.outage.ended_at is None) for one in found] == [("orders", True), ("orders", False)]
    assert found[1].outage.down_s == pytest.approx(1200, abs=1)


def test_the_page_says_of_when_it_is_and_what_came_since(computed, alive, redis_here, as_role):
    metered.store([record(NOW - MINUTE * 10, 1000)], NOW)
    page = one_line(costs_of(as_role("viewer"), month=computed.month))
    assert f"{computed.started_at:%Y-%m-%d %H:%M:%S}</time> UTC" in page
    assert "Not priced yet:</b> 1,000 operations since then, &lt;0.01 EUR" in page
    assert page.count("not all in a run yet</small>") == 2
    assert page.count(", ongoing") == 1
    assert 'data-label="Outages">2<' in page


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        (Fraction(0), "0.00"),
        (Fraction(2304, 10**8), "<0.01"),
        (Fraction(123, 10_000), "0.01"),
        (Fraction(12, 10), "1.20"),
    ],
)
def test_money_to_be_read_has_no_digits_below_a_cent(amount, shown):
    assert small_money(amount) == shown
