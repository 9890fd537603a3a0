"""A send on an open asyncio link: guarded by the client's watchdog, without a timer of its own.

docs/specification.md, section 5: it returns or raises within its timeout; a cancellation is the caller's own.
"""

import asyncio
import time

import pytest
from azure.servicebus.exceptions import OperationTimeoutError, ServiceBusError

from pairing.aio.links import Background, Link


class Sender:
    """A sender of the SDK that answers when the test says so, and may swallow cancellations, as the SDK's does."""

    _running = True

    def __init__(self, swallows=0):
        self.sent, self.swallows, self.error, self.was_sending_when_closed = [], swallows, None, None
        self.opening, self.may_open, self.sending, self.gate, self.closed = (asyncio.Event() for _ in range(5))

    async def __aenter__(self):
        self.opening.set()
        await self.may_open.wait()

    async def send_messages(self, message):
        self.sending.set()
        try:
            while not self.gate.is_set():
                await self._wait()
        finally:
            self.sending.clear()
        if self.error is not None:
            raise self.error
        self.sent.append(message)

    async def _wait(self):
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.swallows -= 1
            if self.swallows < 0:
                raise

    async def close(self):
        self.was_sending_when_closed = self.sending.is_set()
        self.closed.set()


def link_to(sender):
    return Link(lambda: sender, Background())


async def opened(sender):
    sender.may_open.set()
    link = link_to(sender)
    assert await link.warm(5.0) is None
    return link


async def sending_on(sender, timeout_s=10.0):
    """An open link, and a task that sends on it."""
    link = await opened(sender)
    sending = asyncio.create_task(link.send("a", timeout_s))
    await sender.sending.wait()
    return link, sending


async def test_a_link_that_is_closed_while_it_opens_keeps_nothing_open():
    sender = Sender()
    link = link_to(sender)
    sending = asyncio.create_task(link.send("a", 10.0))
    await sender.opening.wait()
    await link.close(0.0)
    sender.may_open.set()
    assert "closed" in str((await sending).error)
    await asyncio.wait_for(sender.closed.wait(), 5.0)
    assert (link.sender, sender.sent) == (None, [])


@pytest.mark.parametrize("timeout_s", [1.0, 10.0])
async def test_the_sdks_sender_is_closed_only_once_its_send_has_left_it(timeout_s):
    sender = Sender(swallows=1)
    link, sending = await sending_on(sender, timeout_s)
    await link.close(0.0)
    assert "before the link was closed" in str((await asyncio.wait_for(sending, 60)).error)
    await asyncio.wait_for(sender.closed.wait(), 5.0)
    assert sender.was_sending_when_closed is False


@pytest.mark.parametrize("swallowed", [0, 3], ids=["heard at once", "heard the fourth time"])
async def test_an_overdue_send_is_cancelled_until_it_ends(swallowed):
    sender = Sender(swallows=swallowed)
    link, sending = await sending_on(sender)
    link.interrupt_if_overdue(time.monotonic() + 9.0)
    assert not sending.cancelling()
    link.interrupt_if_overdue(time.monotonic() + 10.0)
    failure = await asyncio.wait_for(sending, 60)
    assert (type(failure.error), failure.reused) == (OperationTimeoutError, True)
    assert (sending.cancelling(), link.sender) == (0, None)
    await asyncio.wait_for(sender.closed.wait(), 5.0)


async def test_a_cancellation_by_the_caller_passes_through_and_the_link_is_opened_anew():
    sender = Sender()
    link, sending = await sending_on(sender)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert link.sender is None


async def test_a_caller_who_cancels_an_overdue_send_is_heard():
    sender = Sender(swallows=1)
    link, sending = await sending_on(sender)
    link.interrupt_if_overdue(time.monotonic() + 10.0)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending


async def test_a_failure_is_reported_and_a_refusal_keeps_the_link():
    sender = Sender()
    sender.gate.set()
    sender.error = ServiceBusError("no", shutdown_handler=False)
    link = await opened(sender)
    failure = await link.send("a", 10.0)
    assert (failure.error, failure.reused, link.sender) == (sender.error, True, sender)
    sender.error = ServiceBusError("gone", shutdown_handler=True)
    await link.send("a", 10.0)
    assert link.sender is None


class OneByOne(Sender):
    async def send_messages(self, message):
        await super().send_messages(message)
        self.gate.clear()


async def test_a_strike_that_was_swallowed_does_not_hit_the_tasks_next_send():
    sender = OneByOne(swallows=1)
    link = await opened(sender)

    async def send_two():
        return [await link.send("a", 10.0), await link.send("b", 10.0)]

    sending = asyncio.create_task(send_two())
    await sender.sending.wait()
    overdue = link._until
    link.interrupt_if_overdue(time.monotonic() + 10.0)
    sender.sending.clear()
    sender.gate.set()  # the answer comes in the same moment
    await sender.sending.wait()
    assert sender.sent == ["a"]
    link._cancel(sending, overdue)  # the timer of the first send, which comes late
    sender.gate.set()
    assert await asyncio.wait_for(sending, 60) == [None, None]


async def test_who_waits_for_a_link_that_others_hold_is_informed_so_and_leaves_it_as_it_is():
    sender = Sender()
    link, first = await sending_on(sender)
    failure = await link.send("b", 0.2)
    assert (failure.is_crowded, failure.reused, link.sender) == (True, False, sender)
    sender.gate.set()
    assert await first is None
    assert sender.sent == ["a"]


@pytest.mark.parametrize("timeout_s", [1.0, 10.0])
async def test_a_cancellation_that_the_sdk_swallows_ends_the_send_when_the_client_looks_next(timeout_s):
    sender = Sender(swallows=2)
    link, sending = await sending_on(sender, timeout_s)
    link.interrupt_if_overdue(time.monotonic())
    sending.cancel()
    await asyncio.sleep(0)
    assert sender.swallows == 1
    link.interrupt_if_overdue(time.monotonic())
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(sending, 60)
    assert (sending.cancelling(), link.sender, sender.sent) == (1, None, [])


@pytest.mark.parametrize("timeout_s", [1.0, 10.0])
async def test_a_task_that_was_cancelled_before_can_still_send(timeout_s):
    sender = Sender()
    sender.gate.set()
    link = await opened(sender)
    asyncio.current_task().cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.sleep(0)
    assert asyncio.current_task().cancelling() == 1
    assert await link.send("goodbye", timeout_s) is None
    assert asyncio.current_task().uncancel() == 0


@pytest.mark.parametrize("timeout_s", [1.0, 10.0])
async def test_a_send_that_fails_because_it_was_cancelled_raises_the_cancellation(timeout_s):
    sender = Sender(swallows=1)
    sender.error = ServiceBusError("torn", shutdown_handler=True)
    _, sending = await sending_on(sender, timeout_s)
    sending.cancel()
    sender.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await sending
