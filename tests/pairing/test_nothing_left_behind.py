"""After closing, no thread, task or socket is left and nothing was complained about in the log, whatever was going on.

docs/specification.md, section 9, every combination, in both worlds.
"""

import contextlib
import gc
import logging
from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusError

from pairing import PairingError
from tests.pace import slowed
from tests.pairing import leftovers

pytestmark = pytest.mark.sampled("world")


def left_of_ours():
    return leftovers.threads(), leftovers.tasks()


TIMEOUT = 8.0  # half of it is the primary's; in the rest a busy machine opens a link to the backlog


async def nothing(world, client, queue):
    """It was only opened."""


async def a_send(world, client, queue):
    await world(client.get_queue_sender(queue).send_messages, ServiceBusMessage("x"), timeout=slowed(TIMEOUT))


async def many_senders(world, client, queue):
    for _ in range(3):
        await a_send(world, client, queue)


def failing(operation, effect):
    async def a_failing_send(world, client, queue):
        world.primary.fault(operation=operation, effect=effect, entity=None if operation == "connect" else queue)
        await a_send(world, client, queue)

    return a_failing_send


async def a_frozen_primary(world, client, queue):
    await a_send(world, client, queue)
    world.primary.freeze()


async def a_frozen_secondary(world, client, queue):
    client.fail_over(queue, "test")
    await a_send(world, client, queue)
    world.secondary.freeze()


async def a_receiver_in_use(world, client, queue):
    await world(client.get_queue_receiver(queue).peek_messages)


async def a_primary_end_closed(world, client, queue):
    await a_send(world, client, queue)
    await world(client.primary.close)


async def a_secondary_end_faulted(world, client, queue):
    await a_send(world, client, queue)
    await world(client.secondary.fault, RuntimeError("gone"))


async def both_ends_closed(world, client, queue):
    await world(client.primary.close)
    await world(client.secondary.close)
    await world.until(lambda: client.state == "closed")


ENDS_DOWN = {
    "a primary end closed": a_primary_end_closed,
    "a secondary end faulted": a_secondary_end_faulted,
    "both ends closed": both_ends_closed,
}
WITH_A_SYPHON = {
    "nothing": nothing,
    "a send": a_send,
    "a failover": failing("send", "reset"),
    "a frozen primary": a_frozen_primary,
    "a frozen secondary": a_frozen_secondary,
    "a receiver in use": a_receiver_in_use,
    **ENDS_DOWN,
}
SITUATIONS = WITH_A_SYPHON | {
    "many senders": many_senders,
    "an unanswered attach": failing("attach", "silent"),
    "an unanswered send": failing("send", "silent"),
    "an unanswered connection": failing("connect", "silent"),
}


@contextlib.asynccontextmanager
async def leaving_nothing(world):
    """What is done meanwhile leaves no thread, no task and no socket."""
    await world.until(lambda: left_of_ours() == ([], []))
    sockets = leftovers.open_sockets()
    yield
    await world.until(lambda: left_of_ours() == ([], []))
    await world.until(lambda: leftovers.sockets() <= sockets)


@pytest.mark.parametrize("situation", WITH_A_SYPHON)
async def test_after_hosting_a_syphon(world, queue, caplog, situation):
    async with leaving_nothing(world):
        client = await world.open(enable_syphon=True, backlog_queue_count=1)
        await close_after(SITUATIONS[situation], client, world, queue, caplog)
    assert situation in ENDS_DOWN or complaints(caplog) == []


@pytest.mark.parametrize("situation", SITUATIONS)
async def test_after(world, queue, caplog, situation):
    async with leaving_nothing(world):
        client = await world.open(backlog_queue_count=1)
        await close_after(SITUATIONS[situation], client, world, queue, caplog)
    assert complaints(caplog) == []


async def close_after(situation, client, world, queue, caplog):
    await situation(world, client, queue)
    caplog.clear()
    with contextlib.suppress(PairingError):
        await world(client.close)
    world.primary.thaw()
    world.secondary.thaw()


def complaints(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def test_after_a_fleet_was_joined(world, queue, redis_url):
    async with leaving_nothing(world):
        client = await world.open(coordination=redis_url, pair=f"pair-{queue}")
        await world.until(lambda: client.coordination.is_connected)
        await world(client.get_queue_sender(queue).send_messages, ServiceBusMessage("x"))
        await world(client.close)


async def test_after_opening_failed(world, secondary):
    secondary.fault(operation="admin", effect="status", status=503)
    async with leaving_nothing(world):
        client = world.client()
        with pytest.raises(PairingError):
            await world(client.open)
        await world(client.close)


OPENINGS = 3


@contextlib.asynccontextmanager
async def failing_while_it_lives(world, client, call, *arguments, most):
    """The call is made again and again, and fails; of no socket it is the collector that closes it."""
    sockets = leftovers.sockets()
    gc.disable()
    try:
        yield
        for _ in range(OPENINGS):
            with pytest.raises(ServiceBusError):
                await world(call, *arguments)
        await world.until(lambda: leftovers.open_sockets() <= sockets + most, within_s=20)
    finally:
        gc.enable()
        await world(client.close)


async def test_links_that_were_reset_leave_no_socket_while_the_client_lives(world, primary, queue):
    await world.until(lambda: left_of_ours() == ([], []))
    client = await world.open(failover_interval=timedelta(minutes=60), backlog_queue_count=1)
    sender = client.get_queue_sender(queue)
    await world(sender.send_messages, ServiceBusMessage("x"))
    sending = sender.send_messages, ServiceBusMessage("x")
    async with failing_while_it_lives(world, client, *sending, most=0):
        primary.fault(entity=queue, operation="send", effect="reset")


FAILED_OPENINGS = [
    *(("connect", effect) for effect in ("refuse", "reset")),
    ("open", "reset"),
    *(("cbs", effect) for effect in ("reset", "close")),
    *(("attach", effect) for effect in ("reset", "close")),
]


@pytest.mark.parametrize(("operation", "effect"), FAILED_OPENINGS)
async def test_links_that_did_not_open_leave_no_socket_while_the_client_lives(world, primary, queue, operation, effect):
    await world.until(lambda: left_of_ours() == ([], []))
    client = await world.open(failover_interval=timedelta(minutes=60), backlog_queue_count=1)
    sending = client.get_queue_sender(queue).send_messages, ServiceBusMessage("x")
    most = OPENINGS - 1  # the links to the backlog are open
    async with failing_while_it_lives(world, client, *sending, most=most):
        primary.fault(operation=operation, effect=effect)


async def test_a_receiver_that_did_not_open_leaves_no_socket_while_the_client_lives(world, primary, queue):
    await world.until(lambda: left_of_ours() == ([], []))
    client = await world.open(backlog_queue_count=1)
    receiving = client.get_queue_receiver(queue, max_wait_time=1).receive_messages, 1
    async with failing_while_it_lives(world, client, *receiving, most=OPENINGS - 1):
        primary.fault(operation="connect", effect="reset")
