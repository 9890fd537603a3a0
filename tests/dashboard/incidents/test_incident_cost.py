"""What an incident has cost: one figure, as metered, the same on every page; an estimate of what is not metered yet."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest
from django.utils import timezone

from dashboard.costs.forecasts.tariffs import Bills
from dashboard.costs.reporting.live_outages import live_outages
from dashboard.costs.reporting.outages import outage_costs
from dashboard.fleet.state import projection
from dashboard.fleet.usage import metered
from dashboard.incidents.cost import ToCome
from dashboard.models import ChargeRun, CostRule, EntityHealth, Invoice, Outage, WaitingSample
from dashboard.site.money import small_money
from tests.dashboard.costs.test_costs import RUN
from tests.dashboard.costs.test_costs_forecast import STANDARD, bill
from tests.dashboard.costs.test_costs_insight import PRICES
from tests.dashboard.fleet.test_metered import record
from tests.dashboard.fleet.test_projection import event
from tests.dashboard.markup import one_line

pytestmark = pytest.mark.django_db
MILLION = 1_000_000
MINUTE = timedelta(minutes=1)
FIRST, LAST = "e" * 32, "f" * 32
ADDRESS = f"/pairs/contoso/incidents/{FIRST}"


@pytest.mark.parametrize(
    ("size", "settling", "operations"), [(0, 0, 150), (1_024, 1, 200), (65_536, 0, 150), (70_000, 1, 350)]
)
def test_what_is_to_come_is_sent_and_drained_by_64_kb(size: int, settling: int, operations: int) -> None:
    bills = Bills(STANDARD.after(13 * MILLION))
    found = ToCome(sent=100, drained=50, message_bytes=size, settling=settling, bills=bills, per_gigabyte=Fraction(2))
    assert found.operations == operations
    assert found.money == operations * Fraction(8, 10 * MILLION) + Fraction(150 * size * 2, 10**9)
    inside = replace(found, bills=Bills(STANDARD), per_gigabyte=Fraction(0))
    assert inside.money == 0


@pytest.fixture
def outage(pair) -> datetime:
    """An entity that failed over 40 minutes ago and recovered 20 minutes ago; returns its beginning."""
    began = datetime.now(UTC).replace(second=0, microsecond=0) - MINUTE * 40
    if began.month != timezone.now().month:
        pytest.skip("it would begin in the month before, whose operations the run does not have")
    projection.record_events(
        [event(FIRST, "failed_over", time=began), event(LAST, "recovered", time=began + MINUTE * 20)]
    )
    return began


def meter(began: datetime, minute: int, **kinds: int) -> None:
    """Operations in a minute of the outage, as processes report them."""
    at = began + MINUTE * minute
    metered.store([record(at, count, kind=kind, scope="sub") for kind, count in kinds.items()], timezone.now())


def waits(messages: int) -> None:
    entity = EntityHealth.objects.get(path="orders")
    for ago, count in ((9, messages + 5), (1, messages)):
        WaitingSample.objects.create(entity=entity, at=timezone.now() - MINUTE * ago, waiting=count)


@pytest.mark.parametrize(("rule", "billed"), [("published", 211), ("settlements", 311)])
def test_every_place_has_the_metered_figure(
    outage: datetime, redis_here, alive, as_role, rule: str, billed: int
) -> None:
    """A hundred messages sent to the backlog and out of it, and settled; eleven pings."""
    CostRule.objects.create(rule=rule, set_by="ada", set_at=timezone.now())
    bill("sub", 20 * MILLION, "send", rule=rule, tiers=(13 * MILLION, 7 * MILLION))
    prices = [row | {"price": f"{1_000 * float(row['price'])}"} for row in PRICES]
    details = {"counts": RUN["counts"], "prices": prices, "sample_prices": False}
    ChargeRun.objects.update(rule=rule, started_at=outage - MINUTE, finished_at=outage, details=details)
    meter(outage, 1, send_backlog=100, ping=11)
    meter(outage, 19, syphon_receive=100, syphon_settle=100, syphon_send=100)
    meter(outage - MINUTE * 30, 1, send_backlog=1_000)  # of an outage before
    viewer = as_role("viewer")

    money = billed * Fraction(800, MILLION)
    cost = viewer.get(f"{ADDRESS}.json").json()["cost"]
    assert (cost["rule"], cost["operations"], Fraction(cost["money"])) == (rule, billed, money)
    assert cost["metered"] == {
        "ping": 11, "send_backlog": 100, "syphon_receive": 100, "syphon_settle": 100,
    }  # fmt: skip
    (live,) = live_outages(f"{outage:%Y-%m}", "", [], outage - MINUTE, timezone.now())
    assert (live.operations, live.money) == (billed, money)
    shown = small_money(money)
    for address in (f"{ADDRESS}/", f"/costs/?month={outage:%Y-%m}&tab=outages", f"{ADDRESS}.md"):
        page = one_line(viewer.get(address).text)
        assert (shown in page, str(billed) in page) == (True, True), address


def test_what_the_run_priced_and_what_was_metered_since_are_one_figure(outage: datetime, redis_here, alive) -> None:
    bill("sub", 20 * MILLION, "send", tiers=(13 * MILLION, 7 * MILLION))
    run = ChargeRun.objects.get()
    ChargeRun.objects.update(started_at=outage + MINUTE * 10)
    places = [{"scope": "sub", "namespace": "contoso", "published": 70, "settlements": 70, "crossing_bytes": 0}]
    Outage.objects.create(
        run=run, month=run.month, pair="contoso", entity="orders", started_at=outage, cause="failed_over", down_s=600,
        units={"send_backlog": 70}, extra={"published": 70, "settlements": 70, "crossing_bytes": 0, "places": places},
    )  # fmt: skip
    meter(outage, 5, send_backlog=70)  # the run has priced it
    meter(outage, 15, send_backlog=30)
    invoices = list(Invoice.objects.select_related("run"))
    priced = outage_costs(run.month, "contoso", invoices)
    (found,) = live_outages(run.month, "contoso", priced, outage + MINUTE * 10, timezone.now())
    assert (found.operations, found.money) == (100, 100 * Fraction(8, 10 * MILLION))
    assert (found.stages, found.is_priced) == ([("send_backlog", 100)], False)


def test_a_poll_counts_for_the_outage_of_the_pair_that_began_first(outage: datetime, pair) -> None:
    projection.record_events([event("1" * 32, "failed_over", time=outage + MINUTE * 5, entity="payments")])
    polls = {8: "payments", 25: "payments"}
    for minute in polls:
        meter(outage, minute, syphon_receive_empty=minute)
    found = live_outages(f"{outage:%Y-%m}", "", [], None, timezone.now())
    assert {one.outage.entity: one.operations for one in found} == {"orders": 8, "payments": 25}


def test_what_waits_is_an_estimate_and_named_so(outage: datetime, redis_here, alive, as_role) -> None:
    bill("sub", 13 * MILLION, "send", tiers=(13 * MILLION, 0))
    ChargeRun.objects.update(started_at=outage - MINUTE)
    meter(outage, 1, send_backlog=60)
    waits(40)
    viewer = as_role("viewer")
    cost = viewer.get(f"{ADDRESS}.json").json()["cost"]
    assert (cost["operations"], cost["to_come"]["operations"]) == (60, 40)
    page = one_line(viewer.get(f"{ADDRESS}/").text)
    for text in ("100 operations, estimated", "the next million costs 0.80", "As metered, counting rule published"):
        assert text in page, text
    assert "operations, estimated, by the messages" in viewer.get(f"{ADDRESS}.md").text


def test_what_no_process_has_metered_is_the_highest_sampled_depth(outage: datetime, redis_here, alive, as_role) -> None:
    waits(40)
    viewer = as_role("viewer")
    assert viewer.get(f"{ADDRESS}.json").json()["cost"]["to_come"]["operations"] == 45 + 40
    assert "45 messages in the backlog are not metered yet" in one_line(viewer.get(f"{ADDRESS}/").text)


@pytest.mark.parametrize("ahead", [60, 10**8], ids=["ahead", "far ahead"])
def test_a_clock_that_is_ahead_makes_no_incident_cheaper_than_nothing(
    pair, redis_here, alive, as_role, ahead: int
) -> None:
    projection.record_events([event(FIRST, "failed_over", time=timezone.now() + timedelta(minutes=ahead))])
    cost = as_role("viewer").get(f"{ADDRESS}.json").json()["cost"]
    assert (cost["operations"], Fraction(cost["money"])) == (0, 0)
