"""Clients send through a gateway between two local namespaces while the primary fails."""

import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from importlib.metadata import version

import httpx
import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient as AsyncServiceBusClient
from azure.servicebus.exceptions import MessageSizeExceededError

from emulator.running import running
from pairing.fleet.presence import GatewayTraffic, Presences
from pairing.fleet.shared_state import USAGE, SharedState
from pairing.telemetry.metering import UsageRecord
from tests.gateway.running import gateway
from tests.workers.test_tracing import Collector

pytestmark = pytest.mark.slow


@pytest.fixture
def guarded(tmp_path, request):
    with ExitStack() as stack:
        namespaces = stack.enter_context(running("contoso", "contoso-dr", entities=["contoso/orders"]))
        primary, secondary = namespaces["contoso"], namespaces["contoso-dr"]
        options = getattr(request, "param", ())
        through = stack.enter_context(
            gateway(tmp_path, primary.connection_string, *options, secondary=secondary.connection_string)
        )
        while not [path for path in secondary.stats() if "transfer" in path]:
            pass
        client = stack.enter_context(ServiceBusClient.from_connection_string(through.connection_string, retry_total=0))
        yield primary, secondary, through, stack.enter_context(client.get_queue_sender("orders"))


def stored(namespace):
    return {path: each["enqueued"] for path, each in namespace.stats().items() if each["enqueued"]}


def test_a_healthy_send_is_stored_in_the_primary(guarded):
    primary, secondary, _, sender = guarded
    for number in range(20):
        sender.send_messages(ServiceBusMessage(str(number)))
    sender.send_messages([ServiceBusMessage(str(number)) for number in range(50)])
    assert (stored(primary), stored(secondary)) == ({"orders": 70}, {})


@pytest.mark.parametrize("effect", ["reject", "detach", "silent"])
def test_a_send_that_the_primary_fails_is_stored_in_the_backlog(guarded, effect):
    primary, secondary, _, sender = guarded
    sender.send_messages(ServiceBusMessage("before"))
    with primary.faulty("send", effect, entity="orders"):
        for number in range(3):
            sender.send_messages(ServiceBusMessage(str(number)))
        sender.send_messages([ServiceBusMessage("x" * 9000) for _ in range(28)])
    assert stored(primary) == {"orders": 1}
    assert sum(stored(secondary).values()) == 31


def test_what_is_on_its_way_when_the_primary_is_lost_is_stored_in_the_backlog(guarded):
    primary, secondary, _, sender = guarded
    sender.send_messages(ServiceBusMessage("before"))
    with primary.faulty("send", "reset", entity="orders"):
        sender.send_messages(ServiceBusMessage("on its way"))
    assert sum(stored(secondary).values()) == 1


def test_an_error_of_the_client_is_the_primarys(guarded):
    primary, secondary, _, sender = guarded
    with pytest.raises(MessageSizeExceededError):
        sender.send_messages(ServiceBusMessage(b"x" * 262_300))
    sender.send_messages(ServiceBusMessage("after"))
    assert (stored(primary), stored(secondary)) == ({"orders": 1}, {})


def test_many_sends_at_once_through_an_outage_are_each_stored_once(guarded):
    primary, secondary, through, _ = guarded

    async def send():
        async with (
            AsyncServiceBusClient.from_connection_string(through.connection_string) as client,
            client.get_queue_sender("orders") as sender,
        ):
            await asyncio.gather(*(sender.send_messages(ServiceBusMessage(str(number))) for number in range(100)))
            with primary.rejecting("orders"):
                await asyncio.gather(*(sender.send_messages(ServiceBusMessage(str(number))) for number in range(100)))

    asyncio.run(send())
    assert stored(primary) == {"orders": 100}
    assert sum(stored(secondary).values()) == 100


def test_sigterm_waits_for_what_is_kept(guarded):
    primary, _, through, sender = guarded
    sender.send_messages(ServiceBusMessage("before"))
    with primary.slow("orders", 2.0), ThreadPoolExecutor(1) as other:
        sending = other.submit(sender.send_messages, ServiceBusMessage("kept"))
        while not primary.faults()[0]["hits"]:
            pass
        through.process.terminate()
        sending.result(10)
    assert stored(primary) == {"orders": 2}


@pytest.mark.parametrize("guarded", [("--enable-syphon",)], indirect=True)
def test_the_backlog_comes_home_after_an_accepted_ping(guarded):
    primary, secondary, through, sender = guarded
    with primary.rejecting("orders"):
        sender.send_messages(ServiceBusMessage("home", message_id="1"))
        assert sum(stored(secondary).values()) == 1
    with (
        ServiceBusClient.from_connection_string(through.connection_string) as client,
        client.get_queue_receiver("orders") as receiver,
    ):
        (message,) = receiver.receive_messages(max_wait_time=20)
        assert (str(message), message.message_id) == ("home", "1")


def awaited(found):
    until = time.monotonic() + 20
    while not (result := found()) and time.monotonic() < until:
        pass
    return result


def test_the_fleet_learns_the_failover_the_clients_and_the_usage_through_redis(tmp_path, redis_url, redis_client):
    with ExitStack() as stack:
        namespaces = stack.enter_context(running("contoso", "contoso-dr", entities=["contoso/orders"]))
        primary, secondary = (namespaces[name].connection_string for name in ("contoso", "contoso-dr"))
        options = {"secondary": secondary, "GATEWAY_COORDINATION": redis_url}
        through = stack.enter_context(gateway(tmp_path, primary, **options))
        client = stack.enter_context(ServiceBusClient.from_connection_string(through.connection_string, retry_total=3))
        sender = stack.enter_context(client.get_queue_sender("orders"))
        sender.send_messages(ServiceBusMessage("healthy"))
        stack.enter_context(namespaces["contoso"].rejecting("orders"))
        sender.send_messages(ServiceBusMessage("x"))
        (orders,) = map(json.loads, awaited(lambda: redis_client.hgetall("pairing:{contoso}:health")).values())
        assert (orders["path"], orders["state"]) == ("orders", "failed_over")

        presences = Presences(SharedState(redis_client, "contoso"))
        (known,) = awaited(lambda: [one.gateway for one in presences.living().values() if one.gateway.redirected])
        sdk = f"azsdk-python-servicebus/{version('azure-servicebus')}"
        assert known == GatewayTraffic({sdk: 1}, links=3, retained=0, redirected=1, refused=0)
        metrics = httpx.get(f"{through.health}/metrics").text
        assert f'paired_gateway_clients{{pair="contoso",sdk="{sdk}"}} 1.0' in metrics
        assert 'paired_gateway_redirected_total{pair="contoso"} 1.0' in metrics
        sender.close()
        client.close()
        through.process.terminate()
        through.process.wait(20)
        assert not presences.living()
    metered = [UsageRecord.from_json(entry["record"]) for _, entry in redis_client.xrange(USAGE)]
    sent = [(each.kind, each.namespace, each.messages) for each in metered if each.entity == "orders" and each.messages]
    assert sorted(sent) == [("send", "contoso", 1), ("send_backlog", "contoso-dr", 1)]


def test_a_redirection_is_a_span_in_the_trace_of_its_message(tmp_path):
    trace_id = "0af7651916cd43dd8448eb211c80319c"
    traced = {"traceparent": f"00-{trace_id}-b7ad6b7169203331-01"}
    with ExitStack() as stack:
        collector = stack.enter_context(Collector())
        serving = threading.Thread(target=collector.serve_forever)
        serving.start()
        stack.callback(collector.shutdown)
        namespaces = stack.enter_context(running("contoso", "contoso-dr", entities=["contoso/orders"]))
        primary, secondary = (namespaces[name].connection_string for name in ("contoso", "contoso-dr"))
        exported = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        through = stack.enter_context(gateway(tmp_path, primary, secondary=secondary, **exported))
        client = stack.enter_context(ServiceBusClient.from_connection_string(through.connection_string, retry_total=3))
        sender = stack.enter_context(client.get_queue_sender("orders"))
        stack.enter_context(namespaces["contoso"].rejecting("orders"))
        sender.send_messages(ServiceBusMessage("x", application_properties=traced))
        through.process.terminate()
        through.process.wait(20)
        spans = b"".join(body for _, body in collector.taken)
        expected = (bytes.fromhex(trace_id), b"paired-namespaces-gateway", b"x-servicebus-transfer")
        assert [each for each in expected if each not in spans] == []
        client.close()
