"""Clients send through a gateway between two local namespaces while the primary fails."""

import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from importlib.metadata import version
from uuid import uuid4

import httpx
import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient as AsyncServiceBusClient
from azure.servicebus.exceptions import MessageSizeExceededError

from emulator.running import running
from pairing.fleet.health_store import HealthStore
from pairing.fleet.presence import GatewayTraffic, Presences
from pairing.fleet.shared_state import USAGE, SharedState
from pairing.telemetry.metering import UsageRecord
from tests.administration import administration_of
from tests.gateway.running import gateway
from tests.pace import eventually
from tests.workers.test_tracing import Collector

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def pair():
    with running("contoso", "contoso-dr") as namespaces:
        yield namespaces["contoso"], namespaces["contoso-dr"]


@pytest.fixture(scope="module")
def shared(pair, tmp_path_factory):
    with gateway_before(pair, tmp_path_factory.mktemp("gateway")) as through:
        yield through


@contextmanager
def gateway_before(pair, folder):
    primary, secondary = pair
    with gateway(folder, primary.connection_string, secondary=secondary.connection_string) as through:
        while not [path for path in secondary.stats() if "transfer" in path]:
            pass
        yield through


@pytest.fixture
def orders(pair):
    """A queue of the test's own."""
    with administration_of(pair[0].connection_string) as administration:
        return administration.create_queue(f"orders-{uuid4().hex}").name


@contextmanager
def sending(through, queue, retry_total=3):
    """With retries, as a gateway that has just begun may not have found the backlog queues."""
    with (
        ServiceBusClient.from_connection_string(through.connection_string, retry_total=retry_total) as client,
        client.get_queue_sender(queue) as sender,
    ):
        yield sender


@pytest.fixture
def sender(shared, orders):
    with sending(shared, orders, retry_total=0) as opened:
        yield opened


@pytest.fixture
def stored(pair, orders):
    """Counts the messages stored since the beginning of the test: in its queue, and in the backlog."""

    def count():
        primary, secondary = (namespace.stats() for namespace in pair)
        return primary[orders]["enqueued"], sum(each["enqueued"] for each in secondary.values())

    before = count()[1]
    return lambda: (count()[0], count()[1] - before)


@pytest.mark.parametrize("operation", ["cbs", pytest.param("connect", marks=pytest.mark.nightly)])
def test_a_client_whose_connection_or_token_the_primary_does_not_answer_sends_in_time(
    pair, tmp_path, orders, stored, operation
):
    with gateway_before(pair, tmp_path) as through, pair[0].faulty(operation, "silent"):
        began = time.monotonic()
        with sending(through, orders) as sender:
            sender.send_messages(ServiceBusMessage("new"))
        assert time.monotonic() - began < 30
    assert stored() == (0, 1)


@pytest.mark.parametrize("effect", ["reject", "detach", "silent"])
def test_a_send_that_the_primary_fails_is_stored_in_the_backlog(pair, orders, sender, stored, effect):
    sender.send_messages(ServiceBusMessage("before"))
    with pair[0].faulty("send", effect, entity=orders), pair[1].faulty("send", "reject", entity=min(pair[1].stats())):
        for number in range(3):
            sender.send_messages(ServiceBusMessage(str(number)))
        sender.send_messages([ServiceBusMessage("x" * 180) for _ in range(1000)])
    assert stored() == (1, 1003)


def test_what_is_on_its_way_when_the_primary_is_lost_is_stored_in_the_backlog(pair, orders, sender, stored):
    sender.send_messages(ServiceBusMessage("before"))
    with pair[0].faulty("send", "reset", entity=orders):
        sender.send_messages(ServiceBusMessage("on its way"))
    assert stored()[1] == 1


@pytest.mark.parametrize("effect", ["close", "end"])
def test_a_connection_or_session_that_the_primary_ends_is_no_failure(pair, orders, sender, stored, effect):
    sender.send_messages(ServiceBusMessage("before"))
    with pair[0].faulty("send", effect, entity=orders, condition="amqp:connection:forced", count=1):
        sender.send_messages(ServiceBusMessage("on its way"))
    assert stored() == (2, 0)


def test_an_error_of_the_client_is_the_primarys(sender, stored):
    with pytest.raises(MessageSizeExceededError):
        sender.send_messages(ServiceBusMessage(b"x" * 262_300))
    sender.send_messages(ServiceBusMessage("after"))
    assert stored() == (1, 0)


def test_many_sends_at_once_through_an_outage_are_each_stored_once(pair, shared, orders, stored):
    async def send():
        async with (
            AsyncServiceBusClient.from_connection_string(shared.connection_string) as client,
            client.get_queue_sender(orders) as sender,
        ):
            await asyncio.gather(*(sender.send_messages(ServiceBusMessage(str(number))) for number in range(100)))
            with pair[0].rejecting(orders):
                await asyncio.gather(*(sender.send_messages(ServiceBusMessage(str(number))) for number in range(100)))

    asyncio.run(send())
    assert stored() == (100, 100)


def test_sigterm_waits_for_what_is_kept(pair, tmp_path, orders, stored):
    with gateway_before(pair, tmp_path) as through, sending(through, orders) as sender:
        sender.send_messages(ServiceBusMessage("before"))
        with pair[0].slow(orders, 2.0), ThreadPoolExecutor(1) as other:
            kept = other.submit(sender.send_messages, ServiceBusMessage("kept"))
            while not pair[0].faults()[0]["hits"]:
                pass
            through.process.terminate()
            kept.result(10)
    assert stored() == (2, 0)


def test_the_fleet_learns_the_failover_the_clients_and_the_usage_through_redis(
    pair, tmp_path, orders, redis_url, redis_client
):
    options = {"secondary": pair[1].connection_string, "GATEWAY_COORDINATION": redis_url}
    with gateway(tmp_path, pair[0].connection_string, **options) as through:
        with sending(through, orders) as sender:
            sender.send_messages(ServiceBusMessage("healthy"))
            pair[0].fault("send", "reject", entity=orders)
            sender.send_messages(ServiceBusMessage("x"))
            (found,) = eventually(lambda: redis_client.hgetall("pairing:{contoso}:health"), 20).values()
            health = json.loads(found)
            assert (health["path"], health["state"]) == (orders, "failed_over")

            living = Presences(SharedState(redis_client, "contoso")).living
            (known,) = eventually(lambda: [one.gateway for one in living().values() if one.gateway.redirected], 20)
            sdk = f"azsdk-python-servicebus/{version('azure-servicebus')}"
            assert known == GatewayTraffic({sdk: 1}, links=3, retained=0, redirected=1, refused=0)
            metrics = httpx.get(f"{through.health}/metrics").text
            assert 'paired_gateway_clients{pair="contoso",sdk="azsdk-python-servicebus"} 1.0' in metrics
            assert 'paired_gateway_redirected_total{pair="contoso"} 1.0' in metrics
        through.process.terminate()
        through.process.wait(20)
        assert not living()
    metered = [UsageRecord.from_json(entry["record"]) for _, entry in redis_client.xrange(USAGE)]
    sent = [(each.kind, each.namespace, each.messages) for each in metered if each.entity == orders and each.messages]
    assert sorted(sent) == [("send", "contoso", 1), ("send_backlog", "contoso-dr", 1)]


def test_operators_fail_over_and_release_what_is_sent(pair, tmp_path, orders, stored, redis_url, redis_client):
    fleet, by = HealthStore(redis_client, "contoso"), {"operator": "o", "process": "p"}
    options = {"secondary": pair[1].connection_string, "GATEWAY_COORDINATION": redis_url}
    with gateway(tmp_path, pair[0].connection_string, **options) as through, sending(through, orders) as sender:
        for change, *why in ((fleet.fail_over, "drill"), (fleet.release,)):
            before = stored()[len(why)]
            change(orders, *why, **by)
            while stored()[len(why)] == before:
                sender.send_messages(ServiceBusMessage("x"))


def test_a_redirection_is_a_span_in_the_trace_of_its_message(pair, tmp_path, orders):
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    traced = {"traceparent": f"00-{trace_id}-b7ad6b7169203331-01"}
    with ExitStack() as stack:
        collector = stack.enter_context(Collector())
        serving = threading.Thread(target=collector.serve_forever)
        serving.start()
        stack.callback(collector.shutdown)
        exported = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "secondary": pair[1].connection_string}
        through = stack.enter_context(gateway(tmp_path, pair[0].connection_string, **exported))
        with sending(through, orders) as sender, pair[0].rejecting(orders):
            sender.send_messages(ServiceBusMessage("x", application_properties=traced))
        through.process.terminate()
        through.process.wait(20)
        spans = b"".join(body for _, body in collector.taken)
        expected = (bytes.fromhex(trace_id), b"paired-namespaces-gateway", b"x-servicebus-transfer")
        assert [each for each in expected if each not in spans] == []
