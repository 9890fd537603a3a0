"""A close that is cancelled still leaves nothing behind (docs/specification.md, section 9)."""

import asyncio
import contextlib
import logging

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

from pairing.aio.links import Background, Link


@pytest.fixture
async def client(make_world):
    world = make_world("asyncio")
    yield await world.open(enable_syphon=True, backlog_queue_count=1)
    await world.close()


async def test_a_cancelled_close_is_finished_in_the_background_and_awaited_by_the_next(client, queue):
    await client.get_queue_sender(queue).send_messages(ServiceBusMessage("x"))
    others = asyncio.all_tasks()
    closing = asyncio.create_task(client.close())
    await asyncio.sleep(0)
    closing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await closing
    await client.close()
    assert (client.state, client.primary.state, client.secondary.state) == ("closed", "closed", "closed")
    assert not [task for task in others if task.get_name().startswith("pairing-") and not task.done()]


async def test_a_tick_that_fails_is_not_the_last(client, monkeypatch):
    ticks, twice = [], asyncio.Event()

    def tick():
        ticks.append(None)
        if len(ticks) == 2:
            twice.set()
        raise RuntimeError

    monkeypatch.setattr(client, "_tick", tick)
    async with asyncio.timeout(10):
        await twice.wait()


@pytest.mark.parametrize("kind", ["sender", "receiver"])
@pytest.mark.parametrize("silent", ["connect", "open", "attach", "cbs"])
async def test_closing_under_an_opening_that_is_not_answered_is_nothing_to_complain_about(
    secondary, queue, caplog, kind, silent
):
    sdk = ServiceBusClient.from_connection_string(secondary.connection_string, retry_total=0)
    secondary.fault(operation=silent, effect="silent")
    background, opening = Background(), asyncio.Event()

    async def make():
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
