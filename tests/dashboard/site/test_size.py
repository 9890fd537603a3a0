"""Every page of a large fleet: what it asks of the database does not grow with the fleet, nor its size without end."""

import time

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from dashboard.access import sessions
from tests.dashboard.large_fleet import fill

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
PAGES = (
    "/", "/?q=created-1", "/?page=2", "/pairs/pair-009/", "/pairs/pair-009/entities/region/created-0/",
    "/events/", "/workers/", "/incidents/", "/incidents/?state=open", "/alerts/", "/alerts/rules/", "/readiness/",
    "/backlog/", "/costs/", "/costs/?tab=pairs", "/costs/?tab=entities", "/costs/?tab=outages",
    "/costs/?tab=rows", "/costs/?tab=terms", "/costs/forecast/", "/costs/reconcile/", "/drills/", "/audit/",
    "/api/v1/health", "/api/v1/pairs", "/api/v1/entities", "/api/v1/incidents", "/api/v1/alerts", "/api/v1/readiness",
    "/api/v1/events", "/metrics",
)  # fmt: skip
MOST_QUERIES, MOST_BYTES = 30, 250_000
WHOLE = {"/metrics": 1_000_000, "/api/v1/pairs": 1_000_000, "/api/v1/health": 1_000_000}
"""What is of all pairs by its contract."""


def asked(viewer: Client, address: str) -> tuple[int, int, float]:
    """The queries, bytes and seconds of processor time of a page that is opened for the second time."""
    viewer.get(address)
    with CaptureQueriesContext(connection) as queries:
        began = time.process_time()
        answer = viewer.get(address)
        took = time.process_time() - began
    assert answer.status_code == 200, address
    return len(queries), len(answer.content), took


def test_no_page_asks_more_of_a_larger_fleet(as_role, redis_here, alive, monkeypatch) -> None:
    monkeypatch.setattr(sessions, "NOTED_EACH_S", 86_400)  # on a slow machine one page would note the time
    viewer, counts = as_role("viewer"), []
    for numbers, entities in ((range(20), 4), (range(20, 60), 12)):
        fill(timezone.now(), numbers, entities, entities - 1)
        counts.append({address: asked(viewer, address) for address in PAGES})
    small, large = counts
    grown = {address: (small[address][0], large[address][0]) for address in PAGES}
    assert {address: two for address, two in grown.items() if two[1] > min(MOST_QUERIES, two[0])} == {}
    most = {address: size for address, (_, size, _) in large.items() if size > WHOLE.get(address, MOST_BYTES)}
    assert most == {}
