"""One answer: every place where a figure of an outage stands has the same, at one instant, in each of its states."""

import re
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest
from django.utils import timezone

from dashboard.fleet.usage import metered
from dashboard.models import BacklogQueue, ChargeRun, EntityHealth, FailoverEvent, SyphonLedger, WaitingSample
from dashboard.site.durations import lasting
from dashboard.site.money import small_money
from pairing.fleet.shared_state import SharedState
from tests.dashboard.costs.test_costs import RUN
from tests.dashboard.costs.test_costs_forecast import bill
from tests.dashboard.costs.test_costs_insight import PRICES
from tests.dashboard.markup import one_line
from tests.dashboard.outage_states import enter
from tests.dashboard.sample_outage import add_outage, sent

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
PINGS, SEEN, LEGEND = 331, 5_291, r'data-name="([^"]*)".*?<b>([\d,]+)</b>'
LOOKS = {
    "failed-over": ("failed-over", "failed-over"), "primary": ("failed-over", "failed-over"), "held": ("held", "held"),
    "draining": ("draining", "draining"), "paced": ("draining", "draining"), "after": ("healthy", "healthy"),
}  # fmt: skip
"""The status of the entity and of its incident."""


@pytest.fixture(params=LOOKS)
def state(request, pair, redis_here, alive, monkeypatch) -> str:
    """`orders` in an outage, whose pings processes have metered and the fleet has counted differently."""
    monkeypatch.setattr(timezone, "now", lambda: NOW)
    pair.entities.create(path="shipments/eu-west", kind="topic")
    EntityHealth.objects.update(kind="queue")
    BacklogQueue.objects.create(pair=pair, path="contoso/x-servicebus-transfer/0", index=0, seen_at=NOW)
    orphan = {"is_orphan": True, "size_bytes": 0, "max_size_bytes": 80 << 30, "seen_at": NOW}
    BacklogQueue.objects.create(pair=pair, path="contoso/x-servicebus-transfer/18", index=18, **orphan)
    add_outage(NOW)
    enter({"primary": "failed-over", "paced": "draining"}.get(request.param, request.param))
    if request.param == "failed-over":
        EntityHealth.objects.exclude(path="orders").update(state="healthy", waiting=0)
        WaitingSample.objects.exclude(entity__path="orders").delete()
        FailoverEvent.objects.filter(time__gt=NOW - timedelta(minutes=30)).exclude(entity="orders").delete()
    if request.param == "paced":
        SharedState(redis_here, "contoso").pace_syphon(None, 20.0, "ada", "slowly")
    for kind, days in (("failed_over", 12), ("recovered", 11)):
        old = {"pair": "contoso", "entity": "orders", "kind": kind, "time": NOW - timedelta(days=days)}
        FailoverEvent.objects.create(event_id=f"{kind}_before", **old)
    began = _incident().time
    ended = NOW if request.param == "after" else None
    known = {"queue": "contoso/x-servicebus-transfer/0", "moved_at": NOW, "seen_at": NOW, "enqueued": SEEN}
    SyphonLedger.objects.filter(ended_at=None).delete()
    SyphonLedger.objects.create(pair=pair, began_at=began, ended_at=ended, missing=ended and 0, **known)
    EntityHealth.objects.update(ping_count=7_311)
    metered.store([sent(began + timedelta(minutes=1), "orders", "ping", PINGS)], NOW)
    bill("contoso", 20_000_000, "send", tiers=(13_000_000, 7_000_000))
    prices = [row | {"price": f"{1_000 * float(row['price'])}"} for row in PRICES]
    details = {"counts": RUN["counts"], "prices": prices, "sample_prices": False}
    ChargeRun.objects.update(started_at=NOW - timedelta(hours=3), details=details)
    return str(request.param)


def _incident() -> FailoverEvent:
    return FailoverEvent.objects.filter(entity="orders", kind__in=("failed_over", "forced")).latest("time")


def _row(page: str, attribute: str) -> str:
    return next(row for row in re.findall(r"<tr.*?</tr>", page) if attribute in row)


def test_every_place_says_the_same(state: str, as_role) -> None:
    viewer, event = as_role("viewer"), _incident()
    address, status, incident_status = f"/pairs/contoso/incidents/{event.event_id}", *LOOKS[state]

    def page(path: str) -> str:
        return one_line(viewer.get(path).text)

    def api(path: str) -> Any:
        return viewer.get(f"/api/v1/{path}").json()

    shown, story = page(f"{address}/"), viewer.get(f"{address}.json").json()
    line = _row(page("/incidents/"), f'data-incident="{event.event_id}"')
    (entity,) = api("entities?pair=contoso&path=orders")["items"]
    overview, of_pair, of_entity = page("/"), page("/pairs/contoso/"), page("/pairs/contoso/entities/orders/")

    assert entity["status"] == status
    assert {story["status"], api("incidents?entity=orders")["items"][0]["status"]} == {incident_status}
    for where in (overview, of_pair):
        assert f'data-status="{status}"' in _row(where, 'data-entity="orders"')
    assert f'class="headline is-{status}"' in of_entity
    assert (f'class="headline is-{incident_status}"' in shown, f"badge is-{incident_status}" in line) == (True, True)

    lasted = lasting(timedelta(seconds=story["lasted_s"]))
    assert [lasted in where for where in (shown, line, of_entity, viewer.get(f"{address}.md").text)] == [True] * 4
    waiting = f"{entity['backlog_messages']:,}"
    assert story["waiting_messages"] == entity["backlog_messages"]
    assert f"<dt>Waiting now</dt> <dd>{waiting}</dd>" in shown

    assert (story["pings"]["count"], story["cost"]["metered"]["ping"]) == (PINGS, PINGS)
    assert "7,311" not in shown + of_entity

    money = small_money(Fraction(story["cost"]["money"]))
    charged = _row(page(f"/costs/?month={NOW:%Y-%m}&tab=outages"), 'data-outage="orders"')
    assert f'<a href="{address}/">' in charged
    for where in (shown, viewer.get(f"{address}.md").text, charged):
        assert (money in where, f"{story['cost']['operations']:,}" in where) == (True, True)
    _moving(state, api("pairs/contoso"), overview, of_pair)
    for where in (of_pair, shown, viewer.get(f"{address}.md").text):
        assert (f"{SEEN:,}" in where) == (state == "after")
    _of_charts(overview, of_pair, of_entity)
    _of_lists(viewer, api)


def _moving(state: str, of_api: Any, *pages: str) -> None:
    """What a pair promises, and the room of the queues that senders use."""
    assert {"drained in" in page for page in pages} == {state in ("draining", "paced")}
    assert (of_api["trend"]["drained_in_s"] is not None) == (state in ("draining", "paced"))
    assert of_api["traffic"]["full_in_s"] < 365 * 86_400
    assert all("<dt>Backlog queues</dt> <dd> 1 " in page for page in pages)


def _of_charts(overview: str, of_pair: str, of_entity: str) -> None:
    """A legend has the figures that stand beside the chart, of the pair and of each entity."""
    for page in (overview, of_pair):
        legend = dict(re.findall(LEGEND, page))
        (whole,) = re.findall(r"In backlog</dt> <dd> (?:<a [^>]*>)?([\d,]+)", page)
        rows = {path: re.search(r"<(?:b|span[^>]*)>([\d,]+)<", page[at:]) for path, at in _waiting(page)}
        assert legend.pop("total", whole) == whole
        assert legend == {path: found[1] for path, found in rows.items() if found and path in legend}
    (waiting,) = re.findall(r"<dt>Waiting</dt> <dd>([\d,]+)", of_entity)
    assert set(dict(re.findall(LEGEND, of_entity)).values()) <= {waiting}


def _waiting(page: str) -> list[tuple[str, int]]:
    """Each entity of a table, and where its count begins."""
    return [
        (row[1], page.index('data-label="In backlog"', row.end()))
        for row in re.finditer(r'<tr [^>]*data-entity="([^"]*)"', page)
    ]


def _of_lists(viewer: Any, api: Any) -> None:
    """The list, its filters, the API and the costs have the same incidents."""
    known = {one["id"]: one for one in api("incidents")["items"]}

    def listed(query: str) -> list[str]:
        return re.findall(r'href="/pairs/contoso/incidents/(\w+)/"', viewer.get(f"/incidents/{query}").text)

    def those(**fields: str) -> set[str]:
        return {key for key, one in known.items() if all(one[name] == value for name, value in fields.items())}

    for query in ("", "?pair=contoso", f"?month={NOW:%Y-%m}"):
        assert sorted(listed(query)) == sorted(known)
    of_entity = one_line(viewer.get("/pairs/contoso/entities/orders/").text)
    assert set(re.findall(r'<th scope="row"> <a href="/pairs/contoso/incidents/(\w+)/"', of_entity)) == {
        *listed("?entity=orders")
    }
    assert set(listed("?entity=orders")) == those(entity="orders")
    assert set(listed("?state=open")) == known.keys() - those(status="healthy")
    assert viewer.get(f"/costs/?month={NOW:%Y-%m}&tab=outages").text.count("data-outage=") == len(known)
