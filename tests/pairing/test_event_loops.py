"""An asyncio client belongs to the event loop in which it was opened (docs/failures.md): elsewhere nobody would watch
its deadlines, fail its entities over, or ping them.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage

from pairing import PairingError
from pairing.aio import PairedServiceBusClient, Syphon

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "open": lambda client, sender: client.open(),
    "enter a sender": lambda client, sender: sender.__aenter__(),
    "send": lambda client, sender: sender.send_messages(ServiceBusMessage("elsewhere")),
    "send within": lambda client, sender: sender.send_messages(ServiceBusMessage("elsewhere"), timeout=5),
    "schedule": lambda client, sender: sender.schedule_messages(ServiceBusMessage("elsewhere"), datetime.now(UTC)),
    "cancel": lambda client, sender: sender.cancel_scheduled_messages(1),
    "create a batch": lambda client, sender: sender.create_message_batch(),
    "ping": lambda client, sender: client.ping("orders"),
    "ping what is due": lambda client, sender: client.ping_due(),
    "drain": lambda client, sender: Syphon(client).run(asyncio.Event()),
}


@pytest.fixture
def home() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop on a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
def at_home(home) -> Callable[[Any], Any]:
    return lambda work: asyncio.run_coroutine_threadsafe(work, home).result(60)


@pytest.fixture
def client(make_world, at_home) -> Iterator[PairedServiceBusClient]:
    client = make_world("asyncio").client(backlog_queue_count=1)
    at_home(client.open())
    yield client
    at_home(client.close())


def test_in_another_loop_every_call_is_refused_at_once_and_the_loop_of_the_client_goes_on(
    client, primary, queue, at_home
):
    sender = client.get_queue_sender(queue)
    at_home(sender.send_messages(ServiceBusMessage("before")))
    for call in CALLS.values():
        with pytest.raises(PairingError, match="opened in another event loop: create and open one in each"):
            asyncio.run(call(client, sender))
    at_home(sender.send_messages(ServiceBusMessage("after")))
    assert [str(message) for message in primary.receive(queue, 2)] == ["before", "after"]


def test_what_does_not_wait_can_be_called_from_anywhere(client, queue):
    async def steered() -> str:
        client.fail_over(queue, "maintenance")
        return str(client.entity_health(queue).state)

    assert asyncio.run(steered()) == "failed_over"
    client.mark_healthy(queue)  # a thread without a loop
    assert client.get_queue_sender(queue).entity_name == queue


def test_a_close_in_another_loop_is_done_by_the_loop_of_the_client(client, queue, at_home, home):
    at_home(client.get_queue_sender(queue).send_messages(ServiceBusMessage("x")))
    asyncio.run(client.close())
    assert (client.state, client.primary.state, client.secondary.state) == ("closed", "closed", "closed")

    async def left() -> list[str]:
        return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("pairing-")]

    assert at_home(left()) == []


def test_once_its_loop_has_ended_a_client_is_refused_and_can_be_closed(make_world, queue):
    client = make_world("asyncio").client(backlog_queue_count=1)
    sender = client.get_queue_sender(queue)
    asyncio.run(client.open())
    with pytest.raises(PairingError, match="another event loop"):
        asyncio.run(sender.send_messages(ServiceBusMessage("x")))
    asyncio.run(client.close())
    assert client.state == "closed"
