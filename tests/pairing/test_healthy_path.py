"""What a plain send costs beside the SDK's own, in steps of the interpreter: the same on a machine however busy."""

import asyncio
import gc
import sys
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from itertools import pairwise
from types import FrameType
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage

import pairing
import pairing.aio
from pairing import SendAvailabilityOptions
from pairing.aio.turn import Turn
from pairing.backlog.administration import Paired
from tests.pairing.metered import metered

PRIMARY, SECONDARY = (
    f"Endpoint=sb://127.0.0.1:{port};SharedAccessKeyName=a;SharedAccessKey=b;UseDevelopmentEmulator=true"
    for port in (1, 2)
)
OPTIONS = SendAvailabilityOptions(primary_namespace="contoso", secondary_namespace="contoso-dr")
MOST_STEPS = 560
"""A send of the bare SDK takes some thousands."""
MOST_REDIRECTED_STEPS = 1300
"""Of which the rewriting, which a send by hand would need too, takes some 400."""
BACKLOG = "contoso/x-servicebus-transfer/0"


class Taken:
    """What stands in for the SDK's sender: it takes everything at once."""

    def send_messages(self, message: Any) -> None:
        pass


class TakenAwaited(Taken):
    async def send_messages(self, message: Any) -> None:
        pass


@contextmanager
def counting_steps() -> Iterator[list[str]]:
    steps: list[str] = []

    def step(frame: FrameType, event: str, argument: Any) -> Any:
        frame.f_trace_opcodes = True
        if event == "opcode":
            steps.append(frame.f_code.co_name)
        return step

    before = sys.gettrace()
    gc.disable()  # whoever listens to collections would be counted, too, whenever one happens to come
    sys.settrace(step)
    try:
        yield steps
    finally:
        sys.settrace(before)
        gc.enable()


class Sending:
    """A client of a world whose links are open, to what takes everything."""

    def __init__(self, library: Any) -> None:
        self.client = library.PairedServiceBusClient.from_connection_string(PRIMARY, SECONDARY, options=OPTIONS)
        self.link_name, self.taken = ("_sender", Taken()) if library is pairing else ("sender", TakenAwaited())
        self.client._paired(Paired([BACKLOG]))
        self.client._opened()
        self.sender = self.client.get_queue_sender("orders")
        self.sender._has_warmed = True
        self.links = [self.sender._link, self.client._backlog_link(BACKLOG)]
        self.set_links(self.taken)

    def set_links(self, taken: Taken | None) -> None:
        for link in self.links:
            setattr(link, self.link_name, taken)

    async def send(self, message: ServiceBusMessage) -> None:
        sent = self.sender.send_messages(message)
        await sent if sent is not None else None


@pytest.fixture(params=[pairing, pairing.aio], ids=["sync", "asyncio"])
async def sending(request: pytest.FixtureRequest) -> AsyncIterator[Sending]:
    sending = Sending(request.param)
    yield sending
    sending.set_links(None)


@pytest.mark.parametrize("failed_over", [False, True], ids=["plain", "redirected"])
async def test_a_send_adds_few_steps_to_the_sdks(sending: Sending, failed_over: bool) -> None:
    if failed_over:
        sending.client.fail_over("orders", "drill")
    await sending.send(ServiceBusMessage(b"x" * 256))
    message = ServiceBusMessage(b"x" * 256)
    with counting_steps() as steps:
        await sending.send(message)
    assert len(steps) < (MOST_REDIRECTED_STEPS if failed_over else MOST_STEPS)
    assert ("rewritten_plainly" in steps) == failed_over
    [(kind, sums)] = metered(sending.client, "kind").items()
    assert (kind, sums[:3], sums.bytes > 2 * 256) == ("send_backlog" if failed_over else "send", (2, 2, 2), True)


async def test_turns_are_taken_in_the_order_of_coming():
    turn, had = Turn(), []

    async def have(name: str) -> None:
        await turn.take()
        had.append(name)
        await asyncio.sleep(0)
        turn.leave()

    await asyncio.gather(*(have(name) for name in "abc"))
    assert had == ["a", "b", "c"]
    assert not turn.is_taken


@pytest.mark.parametrize("leaves_first", [True, False], ids=["handed over already", "still waiting"])
async def test_a_wait_that_is_cancelled_keeps_nobody_else_waiting(leaves_first):
    turn = Turn()
    await turn.take()
    waits, next_ = asyncio.create_task(turn.take()), asyncio.create_task(turn.take())
    await asyncio.sleep(0)
    if leaves_first:
        turn.leave()
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    if not leaves_first:
        turn.leave()
    await asyncio.wait_for(next_, 60)
    assert turn.is_taken
    turn.leave()
    assert not turn.is_taken


@pytest.mark.slow
async def test_thousands_of_redirected_sends_leave_nothing_in_memory(sending: Sending) -> None:
    async def held_after(sends: int) -> int:
        for _ in range(sends):
            await sending.send(ServiceBusMessage(b"x" * 256))
        sending.client.meter.drain(sending.client.clock.now())
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    sending.client.fail_over("orders", "drill")
    tracemalloc.start()
    held = [await held_after(500), *[await held_after(2000) for _ in range(3)]]
    tracemalloc.stop()
    # Ids are made by the hundred; a reference kept of each send would be 16,000 bytes each time. What a thread of an
    # earlier test takes meanwhile is counted, too, but not three times.
    assert min(after - before for before, after in pairwise(held)) < 12_000
