"""What an incident has cost so far and will have cost, by the rules of the forecast (docs/pricing.md, section 9)."""

from dataclasses import replace
from datetime import timedelta
from fractions import Fraction

import pytest
from django.test import Client
from django.utils import timezone

from dashboard.costs.current_month import Used
from dashboard.costs.forecast import Outage, forecast
from dashboard.costs.tariffs import Bills, Tariff
from dashboard.fleet import projection
from dashboard.incidents.cost import Cost, Estimate, Facts, cost
from dashboard.models import ChargeRun, EntityHealth, WaitingSample
from dashboard.site.money import cents
from tests.dashboard.costs.test_costs_forecast import PRICES, REGIONS, STANDARD, bill
from tests.dashboard.fleet.test_projection import event

MILLION = 1_000_000
TARIFF = Tariff(primary=STANDARD, secondary=STANDARD)
BANDWIDTH = {"meter": "Intra Continent Data Transfer Out", "unit": "1 GB", "from": "0.0", "price": "0.02"}
# The worked example: three hours, a million messages of 70 KB, pings each minute, ten queues, all of them home.
EXAMPLE = Facts(
    diverted=MILLION, home=MILLION, message_bytes=71_680, down_s=10_800, lasted_s=10_800, ping_interval_s=60,
    queues=10, used=Used(13 * MILLION), per_gigabyte=Fraction(2, 100),
)  # fmt: skip


def extra(facts: Facts, settlements: bool = True) -> Cost:
    return cost(facts, TARIFF.bills(facts.used), settlements=settlements, drained=False)


@pytest.mark.parametrize("settlements", [False, True])
def test_an_incident_that_is_over_costs_what_the_forecast_said_it_would(settlements: bool) -> None:
    made = extra(EXAMPLE, settlements)
    before = forecast(
        Outage(hours=Fraction(3), messages_per_hour=Fraction(MILLION, 3), message_bytes=71_680,
               crossings=2, per_gigabyte=Fraction(2, 100)), Bills(STANDARD.after(13 * MILLION)), settlements,
    )  # fmt: skip
    assert (made.extra, made.operations) == (before.operations.extra, before.extra_charge)
    assert made.egress == before.bandwidth
    assert made.extra == 4_000_300 + settlements * MILLION
    assert (cents(made.operations), cents(made.egress)) == (320 + 80 * settlements, 287)


def test_what_still_waits_was_sent_once_and_is_fetched_when_it_drains() -> None:
    half = replace(EXAMPLE, home=0)
    so_far, in_the_end = (
        cost(half, TARIFF.bills(half.used), settlements=True, drained=drained) for drained in (False, True)
    )
    assert (so_far.send_backlog, so_far.syphon_receive, so_far.syphon_settle) == (2 * MILLION, 0, 0)
    assert in_the_end == extra(EXAMPLE)
    assert so_far.egress * 2 == in_the_end.egress


def test_a_price_goes_from_the_lower_to_the_higher_whichever_rule_that_is() -> None:
    cheaper = replace(EXAMPLE, used=Used(3_000 * MILLION))
    priced = Estimate(
        by_rule=(EXAMPLE, cheaper), tariff=TARIFF, currency="EUR", is_sample=False,
        is_size_known=True, is_metered=True,
    )  # fmt: skip
    published, settlements = priced.so_far
    assert priced.spent == priced.due == (settlements.money, published.money)
    assert settlements.money < published.money


def test_the_allowance_absorbs_it_and_an_incident_can_straddle_it() -> None:
    assert extra(replace(EXAMPLE, used=Used())).operations == 0
    straddling = extra(replace(EXAMPLE, used=Used(12 * MILLION)))
    assert straddling.operations == (straddling.extra - MILLION) * Fraction(8, 10 * MILLION)


@pytest.mark.parametrize("size", [0, 1, 65_536])
def test_a_small_message_is_one_operation(size: int) -> None:
    assert replace(EXAMPLE, message_bytes=size).units == 1


def test_the_page_and_the_json_show_it_with_its_reasons(pair, redis_here, alive, as_role) -> None:
    now = timezone.now()
    projection.record_events([event("e" * 32, time=now - timedelta(minutes=10))])
    entity = EntityHealth.objects.get(pair=pair, path="orders")
    for minutes, waiting in ((9, 40), (5, 400), (1, 300)):
        WaitingSample.objects.create(entity=entity, at=now - timedelta(minutes=minutes), waiting=waiting)
    viewer: Client = as_role("viewer")

    page = viewer.get(f"/pairs/contoso/incidents/{'e' * 32}/").content.decode()
    document = viewer.get(f"/pairs/contoso/incidents/{'e' * 32}.json").json()["cost"]

    for text in ("So far", "When drained", "The month&#x27;s included operations absorb it", "sample prices"):
        assert text in page or text.replace("&#x27;", "'") in page, text
    assert (document["diverted_messages"], document["home_messages"]) == (400, 100)
    assert document["so_far"]["settlements"]["syphon_settle"] == 100
    assert document["when_drained"]["settlements"]["syphon_settle"] == 400
    assert document["when_drained"]["published"]["syphon_settle"] == 0
    assert document["so_far"]["published"]["money"] == "0.000000000000"


def test_each_rule_goes_on_where_its_month_stands_and_bytes_that_cross_cost_what_the_list_says(
    pair, redis_here, alive, as_role, settings, tmp_path
) -> None:
    settings.PAIRS_FILE = tmp_path / "pairs.toml"
    settings.PAIRS_FILE.write_text(REGIONS % ("standard", "northeurope", "standard", ""))
    bill("sub", 8 * MILLION, "send")
    bill("sub", 13 * MILLION, "send", rule="settlements")
    ChargeRun.objects.update(details={"prices": [*PRICES, BANDWIDTH]})
    now = timezone.now()
    projection.record_events([event("e" * 32, time=now - timedelta(minutes=10))])
    entity = EntityHealth.objects.get(pair=pair, path="orders")
    for minutes, waiting in ((5, 400_000), (1, 400_000)):
        WaitingSample.objects.create(entity=entity, at=now - timedelta(minutes=minutes), waiting=waiting)

    reported = as_role("viewer").get(f"/pairs/contoso/incidents/{'e' * 32}.json").json()["cost"]["so_far"]

    egress = Fraction(400_000 * 1_024, 10**9) * Fraction(2, 100)
    assert Fraction(reported["published"]["egress"]) == egress
    assert Fraction(reported["published"]["money"]) == egress
    operations = reported["settlements"]["operations"]
    assert Fraction(reported["settlements"]["money"]) == egress + operations * Fraction(8, 10 * MILLION)


@pytest.mark.parametrize(
    ("began", "recovered", "pings"), [(60, 90, 0), (-60, 10**8, 1_800)], ids=["ahead", "far ahead"]
)
def test_a_clock_that_is_ahead_makes_no_incident_cheaper_than_nothing_or_longer_than_it_is(
    pair, redis_here, alive, as_role, began: int, recovered: int, pings: int
) -> None:
    now, first, last = timezone.now(), "e" * 32, "f" * 32
    reported = [(first, "failed_over", began), (last, "recovered", recovered)]
    projection.record_events([event(one, kind, time=now + timedelta(minutes=at)) for one, kind, at in reported])

    cost = as_role("viewer").get(f"/pairs/contoso/incidents/{first}.json").json()["cost"]["so_far"]["published"]

    assert pings <= cost["pings"] <= pings + 90  # at one every 2 s
    assert cost["polls"] >= 0
