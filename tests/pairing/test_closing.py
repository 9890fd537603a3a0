"""A client is closed wherever that is called and whatever its process lacks (docs/specification.md, section 9)."""

import asyncio
import contextlib
import logging
import threading
from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

from pairing.aio.links import Background, Link
from tests.pace import GUARD

CLOSED = ("closed", "closed", "closed")


def states(client):
    return client.state, client.primary.state, client.secondary.state


@pytest.fixture
def closing(make_world):
    """A client that is closed at the first event of a kind, and the threads on which that has happened."""

    def make(kind, **options):
        client = make_world("sync").client(backlog_queue_count=1, **options)
        has_closed, threads = threading.Event(), []

        def close(event):
            if event.kind == kind and not threads:
                threads.append(threading.current_thread().name)
                try:
                    client.close()
                finally:
                    has_closed.set()

        def on_thread():
            assert has_closed.wait(GUARD * 30)
            assert states(client) == CLOSED
            return threads[0]

        client.pair_state.on_event = client._callbacks.report
        client.on_event(close)
        return client, on_thread

    return make


@pytest.mark.parametrize("kind", ["syphon_started", "recovered", "failing", "forced"])
def test_by_a_callback(closing, primary, queue, kind):
    client, on_thread = closing(kind, enable_syphon=kind == "syphon_started", failover_interval=timedelta(minutes=1))
    client.open()
    if kind == "failing":
        primary.fault(entity=queue, operation="send", effect="reject")
        with pytest.raises(Exception, match="Fault"):
            client.get_queue_sender(queue).send_messages(ServiceBusMessage("x"))
    elif kind != "syphon_started":
        client.fail_over(queue, "drill", hold=kind == "forced")
    assert on_thread() == "pairing-events"


# By who lacks something


def test_a_client_is_closed_where_no_thread_can_be_started(make_world, queue, redis_url, monkeypatch):
    def refuse_to_start(thread):
        raise RuntimeError("can't start new thread")

    with make_world("sync").client(backlog_queue_count=1, coordination=redis_url) as client:
        sender = client.get_queue_sender(queue)
        sender.send_messages(ServiceBusMessage("x"))
        monkeypatch.setattr(threading.Thread, "start", refuse_to_start)
        client.release(queue)
    assert states(client) == CLOSED
    with pytest.raises(Exception, match="closed"):
        sender.send_messages(ServiceBusMessage("x"))


async def test_a_cancelled_close_is_finished_in_the_background_and_awaited_by_the_next(make_world, queue):
    client = await make_world("asyncio").open(enable_syphon=True, backlog_queue_count=1)
    await client.get_queue_sender(queue).send_messages(ServiceBusMessage("x"))
    others = asyncio.all_tasks()
    closing = asyncio.create_task(client.close())
    await asyncio.sleep(0)
    closing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await closing
    await client.close()
    assert states(client) == CLOSED
    assert not [task for task in others if task.get_name().startswith("pairing-") and not task.done()]


@pytest.mark.parametrize("kind", ["sender", "receiver"])
@pytest.mark.parametrize("silent", ["connect", "open", "attach", "cbs"])
async def test_closing_under_an_opening_that_is_not_answered_is_nothing_to_complain_about(
    secondary, queue, caplog, kind, silent
):
    sdk = ServiceBusClient.from_connection_string(secondary.connection_string, retry_total=0)
    secondary.fault(operation=silent, effect="silent")
    background, opening = Background(), asyncio.Event()

    def make():
        opening.set()
        return sdk.get_queue_sender(queue) if kind == "sender" else sdk.get_queue_receiver(queue)

    link = Link(make, background)
    warming = asyncio.create_task(link.warm(10.0))
    await opening.wait()
    await link.close(0.2)
    await sdk.close()
    assert (await warming).error
    await background.end(2.0)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_tick_that_fails_is_not_the_last(world, monkeypatch):
    client, ticks = world.client(), []

    def tick():
        ticks.append(None)
        raise RuntimeError

    monkeypatch.setattr(client.pair_state, "tick", tick)
    await world(client.open)
    await world.until(lambda: len(ticks) >= 2)
