"""A large pair: what it asks of the database does not grow with it."""

import re
from datetime import timedelta

import pytest
import redis
from django.db import connection
from django.test.utils import CaptureQueriesContext

from dashboard.fleet.state import catching_up, entity_rows, message_counts, projection
from dashboard.models import EntityHealth
from pairing.fleet.shared_health import PingRecord
from tests.dashboard.conftest import NOW, health

pytestmark = [pytest.mark.postgres_nightly, pytest.mark.slow]


@pytest.fixture
def many(pair):
    EntityHealth.objects.bulk_create(
        EntityHealth(pair=pair, path=f"region-{n % 4}/store-{n:03}", state="healthy", since=NOW) for n in range(240)
    )
    return pair


@pytest.mark.parametrize("address", ["/", "/?q=store-1", "/?state=healthy&page=3"])
def test_the_overview_asks_at_most_twelve_questions(
    many, as_role, alive, redis_here, address, django_assert_max_num_queries
):
    operator = as_role("operator")

    with django_assert_max_num_queries(12) as asked:
        operator.get(address)

    assert len(asked) > 5


def test_trouble_is_on_the_first_page_whatever_its_name(many, as_role, alive, redis_here):
    projection.apply_all_health("contoso", [health("region-3/store-239", state="failing")])
    projection.apply_all_health("contoso", [health("region-3/store-235")])
    message_counts.record_waiting("contoso", {"region-2/store-238": 4}, NOW)

    shown = re.findall('data-entity="([^"]+)"', as_role("viewer").get("/").text)

    assert shown[:3] == ["region-3/store-235", "region-3/store-239", "region-2/store-238"]


def test_every_entity_is_on_exactly_one_page(many, as_role, redis_here):
    viewer = as_role("viewer")

    shown = [
        path for page in range(1, 6) for path in re.findall('data-entity="([^"]+)"', viewer.get(f"/?page={page}").text)
    ]

    assert sorted(shown) == sorted(many.entities.values_list("path", flat=True))


def listed(count: int, second: int, fleet: redis.Redis) -> None:
    """As a worker lists the primary; each time all are of the other kind."""
    kind = ("queue", "topic")[second % 2]
    entity_rows.record_entities("contoso", {f"listed/{n}": kind for n in range(count)})


def pinged(count: int, second: int, fleet: redis.Redis) -> None:
    at = NOW + timedelta(seconds=second)
    projection.record_pings("contoso", {f"listed/{n}": PingRecord(at, False, "away", 1, None) for n in range(count)})


def caught_up(count: int, second: int, fleet: redis.Redis) -> None:
    """As a collector that has just started does, after so many have changed."""
    for n in range(count):
        reported = health(f"listed/{n}", version=second + 1)
        fleet.hset("pairing:{contoso}:health", reported.path, reported.to_json())
    catching_up._progress.clear()
    catching_up.catch_up("contoso")


@pytest.mark.parametrize("reported", [listed, pinged, caught_up])
def test_what_is_shown_of_all_entities_takes_as_many_queries_as_of_few(pair, redis_here, reported):
    asked = []
    for second, count in enumerate((400, 30, 400)):
        with CaptureQueriesContext(connection) as queries:
            reported(count, second, redis_here)
        asked.append(len(queries))

    assert asked[1] == asked[2] <= 8
