"""A close that is cancelled still leaves nothing behind (docs/specification.md, section 9)."""

import asyncio
import contextlib
import logging
from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

from pairing import SendAvailabilityOptions
from pairing.aio import PairedServiceBusClient
from pairing.aio.links import Background, Link


@pytest.fixture
async def client(primary, secondary):
    options = SendAvailabilityOptions(
        primary_namespace="contoso-closing",
        secondary_namespace="contoso-dr",
        backlog_queue_count=1,
        enable_syphon=True,
        creation_retry_interval=timedelta(0),
    )
    strings = primary.connection_string, secondary.connection_string
    client = PairedServiceBusClient.from_connection_string(*strings, options=options)
    await client.open()
    yield client
    await client.close()


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


class SlowSender:
    """A sender of the SDK whose opening waits for the test."""

    def __init__(self):
        self.opening, self.gate, self.closed, self.sent = asyncio.Event(), asyncio.Event(), asyncio.Event(), []

    async def __aenter__(self):
        self.opening.set()
        await self.gate.wait()

    async def send_messages(self, message):
        self.sent.append(message)

    async def close(self):
        self.closed.set()


async def test_a_link_that_is_closed_while_it_opens_keeps_nothing_open():
    sender = SlowSender()

    async def make():
        return sender

    link = Link(make, Background())
    sending = asyncio.create_task(link.send("a", 10.0))
    await sender.opening.wait()
    await link.close(0.0)
    sender.gate.set()
    assert "closed" in str((await sending).error)
    await asyncio.wait_for(sender.closed.wait(), 5.0)
    assert (link.sender, sender.sent) == (None, [])


class DeafSender(SlowSender):
    """A sender of the SDK that swallows the first cancellation of a send, as the real one does now and then."""

    def __init__(self):
        super().__init__()
        self.gate.set()
        self.sending, self.never, self.was_sending_when_closed = asyncio.Event(), asyncio.Event(), None

    async def send_messages(self, message):
        self.sending.set()
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await self.never.wait()
            await self.never.wait()
        finally:
            self.sending.clear()

    async def close(self):
        self.was_sending_when_closed = self.sending.is_set()
        await super().close()


@pytest.mark.parametrize("timeout_s", [1.0, 10.0])
async def test_the_sdks_sender_is_closed_only_once_its_send_has_left_it(timeout_s):
    sender = DeafSender()

    async def make():
        return sender

    link = Link(make, Background())
    await link.warm(10.0)
    sending = asyncio.create_task(link.send("a", timeout_s))
    await sender.sending.wait()
    await link.close(0.0)
    assert "before the link was closed" in str((await sending).error)
    await asyncio.wait_for(sender.closed.wait(), 5.0)
    assert sender.was_sending_when_closed is False


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
