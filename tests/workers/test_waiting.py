"""What the sampler tells of real backlog queues: how many messages wait for whom, also where they are many."""

from collections.abc import Iterator, Mapping

import pytest
from azure.servicebus import ServiceBusMessage

from dashboard.fleet.depth import censuses
from dashboard.fleet.pairs.pairs_file import PairConfig
from dashboard.models import BacklogQueue, EntityHealth
from tests.dashboard.secondary import Secondary
from tests.workers.test_on_local_namespaces import fleet_of_one, namespaces
from workers import watchers

__all__ = ["fleet_of_one", "namespaces"]
pytestmark = pytest.mark.django_db(transaction=True)
FIRST, SECOND, SPARE = (f"contoso/x-servicebus-transfer/{index}" for index in (0, 1, 7))


@pytest.fixture
def secondary(namespaces: Mapping[str, str], fleet_of_one: Mapping[str, PairConfig]) -> Iterator[Secondary]:
    strings = {f"CONTOSO_{role}": namespaces[f"WORKERS_{role}"] for role in ("PRIMARY", "SECONDARY")}
    with Secondary.of(strings) as here:
        here.make(FIRST)
        here.make(SECOND)
        yield here


def waiting() -> dict[str, int]:
    watchers.sample("contoso")
    return dict(EntityHealth.objects.filter(waiting__gt=0).values_list("path", "waiting"))


def is_exact() -> bool:
    return not EntityHealth.objects.filter(waiting_is_complete=False).exists()


def test_more_than_one_look_can_see_is_counted_right_after_some_looks(secondary, monkeypatch):
    monkeypatch.setattr(censuses, "MOST_PEEKED", 500)
    secondary.fill_many(FIRST, 700, entity="orders")
    secondary.fill_many(FIRST, 300, entity="payments")
    secondary.fill_many(SECOND, 120, entity="payments")

    assert waiting() == {"orders": 1000, "payments": 120}
    assert not is_exact()
    waiting()
    assert waiting() == {"orders": 700, "payments": 420}


def test_what_is_scheduled_waits_too_so_that_sums_agree(secondary):
    secondary.schedule(FIRST, 3, entity="orders")
    reported = waiting()

    assert reported == {"orders": 3}
    assert sum(queue.messages for queue in BacklogQueue.objects.all()) == 3


def test_an_orphan_of_another_primary_is_not_counted_for_this_one_s_entities(secondary):
    secondary.fill(secondary.make("fabrikam/x-servicebus-transfer/0"), "a", entity="orders")

    assert waiting() == {}
    assert BacklogQueue.objects.get(path__startswith="fabrikam").active == 1


def test_a_queue_that_cannot_be_peeked_leaves_the_others_alone(secondary):
    secondary.make(SPARE, requires_session=True)
    with secondary.client.get_queue_sender(SPARE) as sender:
        sender.send_messages(ServiceBusMessage("a", session_id="s"))
    secondary.fill(FIRST, "b", "c")

    assert (waiting(), is_exact()) == ({"orders": 2}, False)


def test_a_census_that_redis_has_lost_or_that_nobody_can_read_is_begun_anew(secondary, fleet):
    secondary.fill(FIRST, "a", "b")
    waiting()
    fleet.hset("workers:census:contoso", FIRST, '{"known": 5}')

    assert waiting() == {"orders": 2}
