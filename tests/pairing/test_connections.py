"""What a process tells of its connections is what its namespaces see (docs/pricing.md, section 5)."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage

from pairing.ends import open_connections
from tests.pairing.conftest import LocalNamespace, World


def seen(namespace: LocalNamespace) -> int:
    """How many TCP connections are open to a namespace of this machine: one side of each, its own."""
    port = int(namespace.connection_string.split("127.0.0.1:")[1].split(";")[0])
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[3] == "01" and int(row[1].split(":")[1], 16) == port for row in rows)


@pytest.fixture
def primary() -> Iterator[LocalNamespace]:
    """A primary namespace to which nothing that other tests have left behind can connect."""
    namespace = LocalNamespace("contoso")
    yield namespace
    namespace.stop()


async def test_each_sender_and_receiver_is_a_connection_until_it_is_closed(world: World, queue: str) -> None:
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
    for end in (receiver, *senders):
        await world(end.close)
    await world.until(lambda: client.primary.connections == seen(world.primary) == 0)


def test_a_client_that_cannot_be_looked_into_counts_as_none() -> None:
    class Busy:
        @property
        def _handlers(self) -> Any:
            def grow() -> Any:
                yield SimpleNamespace(_running=True)
                raise RuntimeError("Set changed size during iteration")

            return grow()

    assert open_connections([object(), Busy()]) == 0
    assert open_connections([SimpleNamespace(_handlers=[SimpleNamespace(_running=True), SimpleNamespace()])]) == 1


@pytest.mark.parametrize("world", ["sync", "asyncio"], indirect=True)
async def test_the_maintenance_notes_them_for_the_meter(world: World, queue: str) -> None:
    client = await world.open(coordination=None)
    sender = client.get_queue_sender(queue)
    await world(sender.send_messages, ServiceBusMessage(b"x"))

    reported: dict[str, int] = {}

    def primary() -> int:
        for record in client.meter.drain(client.clock.now()):
            reported[record.namespace if record.kind == "connections" else ""] = record.operations
        return reported.get(client.primary.namespace, 0)

    assert await world.until(primary, within_s=30) == 1
