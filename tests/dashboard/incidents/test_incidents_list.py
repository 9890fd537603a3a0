"""The list of incidents: each outage once, found by pair, entity, month and state."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.utils import timezone

from dashboard.costs.reporting.live_outages import live_outages
from dashboard.fleet.state import message_counts, projection
from dashboard.incidents.listing import beginnings, in_month, lines, still_open
from dashboard.models import EntityHealth, Pair
from dashboard.site.database import note_sizes
from tests.dashboard.fleet.test_projection import Queue, event
from tests.dashboard.markup import one_line

MINUTE = timedelta(minutes=1)


def outage(number: int, began: datetime, lasted: timedelta | None, entity: str = "orders", **more: object) -> str:
    """An outage as it is reported; the id of its failover."""
    name = f"{number:031}"
    projection.record_events([event(f"{name}a", "failed_over", time=began, entity=entity, **more)])
    if lasted is not None:
        projection.record_events([event(f"{name}b", "recovered", time=began + lasted, entity=entity, **more)])
    return f"{name}a"


def drained(at: datetime) -> None:
    message_counts.record_depths("contoso", [Queue(active=0)], at)
    message_counts.record_waiting("contoso", {"orders": 0}, at)


def ids(page: str) -> list[str]:
    return re.findall(r'data-incident="(\w+)"', page)


def test_the_list_is_empty_until_something_fails_over(pair, redis_here, as_role):
    assert "No incidents yet" in as_role("viewer").get("/incidents/").text


def test_an_outage_that_several_processes_report_is_one_incident(pair):
    began = timezone.now() - timedelta(hours=2)
    first = outage(1, began, None)
    projection.record_events([event("c" * 32, "failed_over", time=began + MINUTE, process="other:1:bbbb")])
    projection.record_events([event("d" * 32, "recovered", time=began + 5 * MINUTE)])
    second = outage(2, began + 10 * MINUTE, None)

    assert list(beginnings().order_by("time").values_list("event_id", flat=True)) == [first, second]


def test_an_incident_is_open_until_its_backlog_was_seen_to_be_empty(pair, orders):
    began = timezone.now() - timedelta(hours=1)
    over, is_open = outage(1, began, 5 * MINUTE), beginnings()
    assert still_open(is_open).exists()  # nobody has counted since

    EntityHealth.objects.filter(pk=orders.pk).update(waiting=3, waiting_at=timezone.now())
    assert still_open(is_open).exists()

    EntityHealth.objects.filter(pk=orders.pk).update(waiting=0, waiting_at=timezone.now())
    assert not still_open(is_open).exists()

    again = outage(2, began + 30 * MINUTE, None)
    assert [one.event_id for one in still_open(is_open)] == [again]
    assert over != again


@pytest.mark.parametrize(("month", "found"), [("2026-12", "a"), ("2027-01", "b"), ("2026-11", "")])
def test_a_month_has_the_failovers_from_its_first_moment_to_its_last(pair, month, found):
    outage(1, datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC), MINUTE)
    outage(2, datetime(2027, 1, 1, tzinfo=UTC), MINUTE, entity="payments")

    names = {"orders": "a", "payments": "b"}
    assert "".join(names[one.entity] for one in in_month(beginnings(), month)) == found


@pytest.fixture
def several(pair, redis_here, alive):
    """Two outages of orders, one of them open, and one of an entity that is deleted since."""
    now = timezone.now()
    old, new = outage(1, now - timedelta(days=40), 5 * MINUTE), outage(2, now - timedelta(hours=1), None, reason="away")
    drained(now - timedelta(days=40) + 6 * MINUTE)
    gone = outage(3, now - timedelta(days=2), 5 * MINUTE, entity="left/long-ago")
    EntityHealth.objects.filter(path="left/long-ago").delete()
    return {"old": old, "new": new, "gone": gone, "month": f"{now - timedelta(days=40):%Y-%m}"}


def test_a_line_shows_state_time_cause_and_leads_to_the_incident(several, as_role):
    page = as_role("viewer").get("/incidents/").text

    assert ids(page) == [several["new"], several["gone"], several["old"]]
    assert f'href="/pairs/contoso/incidents/{several["new"]}/"' in page
    assert "so far" in page
    assert "away" in page
    assert "Entity deleted" in page
    assert f"incidents/{several['gone']}/" not in page


@pytest.mark.parametrize("address", ["/incidents/", "/events/"])
def test_the_plain_cause_stands_before_the_sentence_of_the_sdk(pair, redis_here, as_role, address):
    outage(1, timezone.now(), None, reason="ServiceBusError: Error condition: amqp:internal-error.")

    page = as_role("viewer").get(address).text

    assert 0 < page.index('<span class="cause">rejects sends: internal error</span>') < page.index("ServiceBusError:")


def test_the_list_is_filtered_by_pair_entity_month_and_state(several, as_role):
    def found(**query: str) -> list[str]:
        return ids(as_role("viewer").get("/incidents/", query).text)

    assert found(pair="contoso", entity="order") == [several["new"], several["old"]]
    assert found(pair="fabrikam") == []
    assert found(month=several["month"]) == [several["old"]]
    assert found(state="open") == [several["new"]]
    assert "No incident matches these filters" in as_role("viewer").get("/incidents/?entity=nothing").text


def test_a_long_list_pages_on(pair, redis_here, alive, as_role):
    now = timezone.now()
    for number in range(75):
        outage(number, now - timedelta(minutes=9 * number + 9), MINUTE)
    viewer = as_role("viewer")

    first, second = viewer.get("/incidents/").text, viewer.get("/incidents/?page=2").text

    assert "Page 1 of 2 · 75 failovers in all" in one_line(first)
    assert len({*ids(first), *ids(second)}) == 75


def test_entities_of_a_pair_that_fail_at_once_are_one_line_also_while_another_pair_fails(pair, redis_here, alive):
    other = Pair.objects.create(
        name="fabrikam", primary_namespace="a", secondary_namespace="b", synced_at=pair.synced_at
    )
    EntityHealth.objects.create(pair=other, path="orders")
    began = timezone.now() - timedelta(hours=1)
    for number, (name, entity) in enumerate((("contoso", "orders"), ("fabrikam", "orders"), ("contoso", "payments"))):
        outage(number, began + number * MINUTE, None, entity, pair=name)

    found = lines(list(beginnings().order_by("-time")), timezone.now())
    assert [(line.event.pair, len(line.found)) for line in found] == [("contoso", 2), ("fabrikam", 1)]


def test_a_drill_is_no_incident_and_no_outage(pair, redis_here, alive, as_role):
    EntityHealth.objects.create(pair=pair, path="pairing-canary", is_canary=True)
    began = timezone.now() - MINUTE
    projection.record_events(
        [
            event(name * 32, "forced", time=began, entity=path)
            for name, path in (("1", "pairing-canary"), ("2", "orders"))
        ]
    )

    assert ids(as_role("viewer").get("/incidents/").text) == ["2" * 32]
    assert [one.outage.entity for one in live_outages(f"{began:%Y-%m}", "", [], None, timezone.now())] == ["orders"]


def test_sqlite_finds_the_recovery_of_each_incident_among_the_events_of_its_entity(pair):
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL counts by itself")
    began = timezone.now() - timedelta(hours=2)
    for number in range(40):
        outage(number, began + number * MINUTE, MINUTE, entity=f"entity-{number}")
    note_sizes()

    assert "event_by_kind (kind=? AND time>?)" not in beginnings().explain()
