"""Workers on two local namespaces and a real Redis ping, sample and bring home.

docs/specification.md, sections 7, 8 and 11.
"""

import os
from collections.abc import Iterator, Mapping

import pytest
import redis
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from dashboard.fleet.pairs.pairs_file import PairConfig
from dashboard.models import BacklogQueue, EntityHealth, Pair
from dashboard.site.redis import shared_state
from emulator.running import running
from pairing import PairedServiceBusClient, SendAvailabilityOptions
from pairing.fleet.coordination import SharedState
from pairing.fleet.shared_backlog import SharedBacklog
from tests.pace import eventually
from tests.workers.conftest import Begin
from workers import connections, pingers, syphons, watchers

pytestmark = pytest.mark.django_db(transaction=True)
PAIRS = """
[pairs.contoso]
primary = { connection_string_env = "WORKERS_PRIMARY", namespace = "contoso" }
secondary = { connection_string_env = "WORKERS_SECONDARY", namespace = "contoso-dr" }
backlog_queue_count = 2
failover_interval_s = 60
ping_primary_interval_s = 1
entities = "*"
"""


@pytest.fixture(scope="module")
def namespaces() -> Iterator[dict[str, str]]:
    """The connection strings of a primary with the queue `orders`, and of a secondary."""
    with running("contoso", "contoso-dr", entities=["contoso/orders"]) as both:
        strings = [both[name].connection_string for name in ("contoso", "contoso-dr")]
        yield dict(zip(("WORKERS_PRIMARY", "WORKERS_SECONDARY"), strings, strict=True))


@pytest.fixture
def fleet_of_one(namespaces: dict[str, str], worker_of: Begin) -> Mapping[str, PairConfig]:
    """A worker process of the pair, which is synced; its clients end with the test."""
    return worker_of(namespaces, PAIRS)


@pytest.fixture
def application(namespaces: dict[str, str], fleet_of_one: object, redis_url: str) -> Iterator[PairedServiceBusClient]:
    options = SendAvailabilityOptions(
        backlog_queue_count=2, primary_namespace="contoso", coordination=redis_url, enable_pings=False
    )
    strings = namespaces["WORKERS_PRIMARY"], namespaces["WORKERS_SECONDARY"]
    with PairedServiceBusClient.from_connection_string(*strings, options=options) as client:
        yield client


def fail_over_orders(fleet: redis.Redis, application: PairedServiceBusClient, *, hold: bool) -> SharedState:
    shared = SharedState(fleet, "contoso")
    shared.fail_over("orders", "drill", operator="ada", process="test", hold=hold)
    eventually(lambda: application.entity_health("orders").state == "failed_over")
    return shared


def test_an_accepted_ping_brings_an_entity_back_and_the_database_knows(fleet, application):
    shared = fail_over_orders(fleet, application, hold=False)

    def is_healthy() -> bool:
        pingers.ping("contoso")
        return shared.health()["orders"].state == "healthy"

    eventually(is_healthy)
    watchers.refresh()
    entity = EntityHealth.objects.get(path="orders")
    assert (entity.state, entity.last_ping_accepted) == ("healthy", True)
    eventually(lambda: application.entity_health("orders").state == "healthy")


def test_a_sample_shows_how_many_messages_wait_for_whom(fleet, application, namespaces):
    fail_over_orders(fleet, application, hold=True)
    with application.get_queue_sender("orders") as sender:
        sender.send_messages([ServiceBusMessage(str(number)) for number in range(3)])
    watchers.sample("contoso")
    assert sum(queue.active for queue in BacklogQueue.objects.all()) == 3
    assert EntityHealth.objects.get(path="orders").waiting == 3
    shared = SharedBacklog(SharedState(fleet, "contoso"))
    if not any(fill.size for fill in shared.fills().values()):  # a look of the application's, begun before, came later
        watchers.sample("contoso")
    assert sum(fill.size for fill in shared.fills().values()) > 0
    bring_home(namespaces, fleet, expected=3)


def bring_home(namespaces: dict[str, str], fleet: redis.Redis, expected: int) -> None:
    SharedState(fleet, "contoso").mark_healthy("orders", operator="ada", process="test")
    syphons.host("contoso")
    with (
        ServiceBusClient.from_connection_string(namespaces["WORKERS_PRIMARY"]) as client,
        client.get_queue_receiver("orders", max_wait_time=120) as receiver,
    ):
        for number, message in enumerate(receiver, start=1):
            receiver.complete_message(message)
            if number == expected:
                return
    pytest.fail("not all messages came home")


def test_a_pair_that_watches_everything_learns_its_entities(fleet_of_one):
    deleted = EntityHealth.objects.create(pair=Pair.objects.get(name="contoso"), path="deleted-in-azure")
    watchers.list_entities("contoso")
    assert EntityHealth.objects.present().filter(path="orders", kind="queue").exists()
    assert deleted not in EntityHealth.objects.present()


@pytest.mark.parametrize("look", [watchers.list_entities, watchers.count_dead_letters], ids=["all", "queues"])
def test_what_a_worker_sees_in_a_primary_is_known_to_have_existed(fleet_of_one, look):
    shared = shared_state("contoso")
    shared.redis.delete("pairing:{contoso}:known")
    look("contoso")
    assert "orders" in (shared.known() or ())


def test_a_client_that_was_closed_is_replaced(fleet_of_one):
    first = connections.client("contoso")
    assert connections.client("contoso") is first
    first.close()
    assert connections.client("contoso").state == "opened"


def test_a_pair_without_connection_string_is_reported_in_one_sentence_and_not_tried_at_once_again(
    fleet_of_one, monkeypatch
):
    monkeypatch.delenv("WORKERS_PRIMARY")
    with pytest.raises(connections.NotConnected, match="WORKERS_PRIMARY is not set"):
        connections.client("contoso")
    monkeypatch.setenv("WORKERS_PRIMARY", os.environ["WORKERS_SECONDARY"])
    with pytest.raises(connections.NotConnected, match="WORKERS_PRIMARY is not set"):
        connections.client("contoso")
