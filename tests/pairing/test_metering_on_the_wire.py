"""What a client meters is what its namespaces see, and is reported by time and when it closes, in both worlds
(docs/pricing.md, sections 4 and 5; docs/design/metering.md)."""

from pathlib import Path

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from redis.exceptions import ConnectionError as RedisIsAwayError

from pairing.operations import maintenance
from tests.pairing.conftest import LocalNamespace
from tests.pairing.metered import metered, reported

pytestmark = pytest.mark.sampled("world")


@pytest.fixture
def primary():
    """A primary namespace to which nothing that other tests have left behind can connect."""
    namespace = LocalNamespace("contoso")
    yield namespace
    namespace.stop()


async def send(world, client, queue: str, count: int) -> None:
    sender = client.get_queue_sender(queue)
    for number in range(count):
        await world(sender.send_messages, ServiceBusMessage(str(number)))


def refuse(records) -> None:
    if list(records):
        raise RedisIsAwayError("no answer")


async def test_what_was_used_is_reported_on_close_and_while_redis_was_away_once_it_is_back(
    world, queue, redis_url, redis_client
):
    client = await world.open(coordination=redis_url)
    await world.until(lambda: client.coordination.is_connected)
    report = client.coordination.shared.record_usage
    client.coordination.shared.record_usage = refuse
    await send(world, client, queue, 3)
    client.coordination.record_usage(client.meter.drain(client.clock.now(), everything=True))
    await world.until(lambda: not client.coordination.is_connected)
    assert reported(redis_client, client.pair)["send"] == 0
    client.coordination.shared.record_usage = report
    await world.until(lambda: reported(redis_client, client.pair)["send"] == 3)
    await send(world, client, queue, 2)
    assert reported(redis_client, client.pair)["send"] == 3
    await world(client.close)
    assert reported(redis_client, client.pair)["send"] == 5


async def test_what_was_used_is_reported_by_time_and_what_comes_after_it_once_more(
    world, queue, redis_url, redis_client, monkeypatch
):
    monkeypatch.setattr(maintenance, "REPORT_S", 0.2)
    client = await world.open(coordination=redis_url)
    for total in (3, 6):
        await send(world, client, queue, 3)
        await world.until(lambda total=total: reported(redis_client, client.pair)["send"] == total)


async def test_deliveries_after_a_receive_call_that_the_sdk_hands_back_unseen_are_on_the_bill(world, primary, queue):
    def put():
        with ServiceBusClient.from_connection_string(primary.connection_string) as sdk:
            sdk.get_queue_sender(queue).send_messages(ServiceBusMessage(b"x" * 100))

    def delivered():
        return primary._call("GET", "/$emulator/meter")[queue].get("receive", {}).get("billing_units", 0)

    client = await world.open(coordination=None)
    put()
    receiver = client.get_queue_receiver(queue)
    (message,) = await world(receiver.receive_messages, max_message_count=10, max_wait_time=10)
    put()  # there is credit left for it
    await world.until(lambda: delivered() == 2)
    await world(receiver.complete_message, message)
    await world(receiver.close)
    assert metered(client, "kind")["receive"].billing_units == delivered() >= 2


# Connections


def seen(namespace) -> int:
    """How many TCP connections are open to a namespace of this machine: one side of each, its own."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[3] == "01" and int(row[1].split(":")[1], 16) == namespace.port for row in rows)


async def test_each_sender_and_receiver_is_a_connection_until_it_is_closed_and_the_meter_notes_the_most(world, queue):
    await world.until(lambda: seen(world.primary) == 0)  # what created the queue has closed its connection
    client = await world.open(coordination=None)
    assert client.primary.connections == seen(world.primary) == 0
    senders = [client.get_queue_sender(queue) for _ in range(2)]
    for sender in senders:
        await world(sender.send_messages, ServiceBusMessage(b"x"))
    receiver = client.get_queue_receiver(queue, max_wait_time=5)
    await world(receiver.receive_messages, max_message_count=1)
    # Waited for, not looked for once: what was given up while it was opened is closed a moment later.
    await world.until(lambda: client.primary.connections == seen(world.primary) == 3)
    noted = {}

    def most():
        records = client.meter.drain(client.clock.now())
        noted.update({each.namespace: each.operations for each in records if each.kind == "connections"})
        return noted.get(client.primary.namespace)

    await world.until(lambda: most() == 3)
    for end in (receiver, *senders):
        await world(end.close)
    await world.until(lambda: client.primary.connections == seen(world.primary) == 0)
