"""What a plain send costs beside the SDK's own, in steps of the interpreter: the same on a machine however busy."""

import asyncio
import gc
import sys
import tracemalloc
from collections.abc import Iterator
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


def at_ease(client: Any, link_name: str, taken: Taken) -> Any:
    client._opened()
    sender = client.get_queue_sender("orders")
    sender._has_warmed = True
    setattr(sender._link, link_name, taken)
    return sender


def test_a_plain_send_adds_few_steps_to_the_sdks():
    client = pairing.PairedServiceBusClient.from_connection_string(PRIMARY, SECONDARY, options=OPTIONS)
    sender = at_ease(client, "_sender", Taken())
    sender.send_messages(ServiceBusMessage("first"))
    message = ServiceBusMessage(b"x" * 256)
    with counting_steps() as steps:
        sender.send_messages(message)
    assert len(steps) < MOST_STEPS
    sender._link._sender = None


async def test_a_plain_send_through_asyncio_adds_few_steps_to_the_sdks():
    client = pairing.aio.PairedServiceBusClient.from_connection_string(PRIMARY, SECONDARY, options=OPTIONS)
    sender = at_ease(client, "sender", TakenAwaited())
    await sender.send_messages(ServiceBusMessage("first"))
    message = ServiceBusMessage(b"x" * 256)
    with counting_steps() as steps:
        await sender.send_messages(message)
    assert len(steps) < MOST_STEPS
    assert {kind: sums[:3] for kind, sums in metered(client, "kind").items()} == {"send": (2, 2, 2)}
    sender._link.sender = None


def redirected(client: Any, link_name: str, taken: Taken) -> Any:
    client._paired(Paired([BACKLOG]))
    sender = at_ease(client, link_name, taken)
    client.fail_over("orders", "drill")
    setattr(client.backlog_link(BACKLOG), link_name, taken)
    return sender


def test_a_redirected_send_adds_few_steps_to_the_sdks():
    client = pairing.PairedServiceBusClient.from_connection_string(PRIMARY, SECONDARY, options=OPTIONS)
    sender = redirected(client, "_sender", Taken())
    sender.send_messages(ServiceBusMessage(b"x" * 256))
    message = ServiceBusMessage(b"x" * 256)
    with counting_steps() as steps:
        sender.send_messages(message)
    assert "rewritten_plainly" in steps
    assert len(steps) < MOST_REDIRECTED_STEPS
    assert metered(client, "kind")["send_backlog"][:3] == (2, 2, 2)
    client.backlog_link(BACKLOG)._sender = sender._link._sender = None


async def test_a_redirected_send_through_asyncio_adds_few_steps_to_the_sdks():
    client = pairing.aio.PairedServiceBusClient.from_connection_string(PRIMARY, SECONDARY, options=OPTIONS)
    sender = redirected(client, "sender", TakenAwaited())
    await sender.send_messages(ServiceBusMessage(b"x" * 256))
    message = ServiceBusMessage(b"x" * 256)
    with counting_steps() as steps:
        await sender.send_messages(message)
    assert "rewritten_plainly" in steps
    assert len(steps) < MOST_REDIRECTED_STEPS
    redirected_sends = metered(client, "kind")["send_backlog"]
    assert redirected_sends[:3] == (2, 2, 2)
    assert redirected_sends.bytes > 2 * 256
    client.backlog_link(BACKLOG).sender = sender._link.sender = None


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
@pytest.mark.parametrize("world", [pairing, pairing.aio], ids=["sync", "asyncio"])
async def test_thousands_of_redirected_sends_leave_nothing_in_memory(world):
    client = world.PairedServiceBusClient.from_connection_string(PRIMARY, SECONDARY, options=OPTIONS)
    link_name, taken = ("_sender", Taken()) if world is pairing else ("sender", TakenAwaited())
    sender = redirected(client, link_name, taken)

    async def held_after(sends: int) -> int:
        for _ in range(sends):
            sent = sender.send_messages(ServiceBusMessage(b"x" * 256))
            await sent if sent is not None else None
        client.meter.drain(client.clock.now())
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    held = [await held_after(500), *[await held_after(2000) for _ in range(3)]]
    tracemalloc.stop()
    setattr(client.backlog_link(BACKLOG), link_name, None)
    setattr(sender._link, link_name, None)
    # Ids are made by the hundred; a reference kept of each send would be 16,000 bytes each time. What a thread of an
    # earlier test takes meanwhile is counted, too, but not three times.
    assert min(after - before for before, after in pairwise(held)) < 12_000
