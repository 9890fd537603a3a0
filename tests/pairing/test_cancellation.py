"""A cancellation arrives wherever it comes: over real AMQP, at each await of each operation.

The SDK awaits ``asyncio.wait_for``, which in Python 3.11 returns where a cancellation comes together with the result.
A task that is cancelled must end, whatever it awaits; its client must go on working; and ``asyncio.run`` must return.
"""

import asyncio
import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest
from azure.servicebus import ServiceBusMessage

from pairing.drive import run_async
from tests.pairing import leftovers
from tests.selection import nightly

HANGS_S = 60.0


@pytest.mark.parametrize(("how", "code"), [("returns", 0), ("raises", 3)])
def test_a_program_that_ends_right_after_its_first_send_ends(primary, secondary, queue, how, code):
    strings = primary.connection_string, secondary.connection_string
    command = [sys.executable, "-m", "tests.pairing.unclosed_asyncio", how, queue, *strings]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_S, check=False)
    assert (ended.returncode, "Task" in ended.stderr) == (code, False)  # nor is any task destroyed while it is pending
    assert [str(message) for message in primary.receive(queue, 1)] == ["first"]


class CancelledAt:
    """Awaits a coroutine and cancels its task while it is suspended for the n-th time.

    ``late``: when what it awaits has just completed and the task has not gone on yet.
    """

    def __init__(self, work, at, *, late):
        self._work, self._at, self._late = work, at, late
        self.suspensions = 0
        self.was_struck = False

    def __await__(self):
        task, step = asyncio.current_task(), lambda: self._work.send(None)
        while True:
            try:
                awaited = step()
            except StopIteration as end:
                return end.value
            self.suspensions += 1
            if self.suspensions == self._at:
                self._strike(task, awaited)
            try:
                sent = yield awaited
            except BaseException as error:
                step = lambda error=error: self._work.throw(error)  # noqa: E731
            else:
                step = lambda sent=sent: self._work.send(sent)  # noqa: E731

    def _strike(self, task, awaited):
        def cancel(_=None):
            self.was_struck = task.cancel()

        if self._late and awaited is not None:
            awaited.add_done_callback(cancel)
        else:
            asyncio.get_running_loop().call_soon(cancel)


async def outcome(task):
    """How a task ended: ``cancelled``, ``returned``, or its error."""
    await asyncio.wait([task], timeout=HANGS_S)
    assert task.done(), "a cancelled task goes on"
    return "cancelled" if task.cancelled() else task.exception() or "returned"


@pytest.fixture
async def world(make_world):
    """The asyncio one: only there is anything cancelled."""
    world = make_world("asyncio")
    yield world
    await world.close()
    assert leftovers.tasks() == []


@pytest.fixture
async def client(world):
    return await world.open(backlog_queue_count=1, enable_pings=False)


class Operations:
    """What an application does with a client. Each method prepares one operation, and returns what is to be awaited."""

    def __init__(self, world, client, queue):
        self._world, self._client, self._queue = world, client, queue

    async def first_send(self):
        return self._sender().send_messages(ServiceBusMessage("one"))

    async def next_send(self):
        return (await self._used_sender()).send_messages(ServiceBusMessage("one"))

    async def list_of_two(self):
        return (await self._used_sender()).send_messages([ServiceBusMessage("one"), ServiceBusMessage("two")])

    async def schedule(self):
        return (await self._used_sender()).schedule_messages(ServiceBusMessage("one"), in_an_hour())

    async def cancel_scheduled(self):
        sender = self._sender()
        return sender.cancel_scheduled_messages(await sender.schedule_messages(ServiceBusMessage("one"), in_an_hour()))

    async def create_batch(self):
        return self._sender().create_message_batch()

    async def receive(self):
        return self._client.get_queue_receiver(self._queue).receive_messages(max_wait_time=1.0)

    async def redirected_send(self):
        client = await self._another_client()
        client.fail_over(self._queue, "test")
        return client.get_queue_sender(self._queue).send_messages(ServiceBusMessage("one"))

    async def ping(self):
        return (await self._another_client()).ping(self._queue)

    async def repair(self):
        return run_async((await self._another_client())._find_backlog_again())

    async def open_client(self):
        return self._world.client(backlog_queue_count=1, enable_pings=False).open()

    async def close_client(self):
        client = await self._another_client()
        await client.get_queue_sender(self._queue).send_messages(ServiceBusMessage("before"))
        return client.close()

    def _sender(self):
        return self._client.get_queue_sender(self._queue)

    async def _used_sender(self):
        sender = self._sender()
        await sender.send_messages(ServiceBusMessage("before"))
        return sender

    async def _another_client(self):
        return await self._world.open(backlog_queue_count=1, enable_pings=False)


OPERATIONS = [name for name in vars(Operations) if not name.startswith("_")]
AT_ONCE = 12


def in_an_hour():
    return datetime.now(UTC) + timedelta(hours=1)


async def cancelled_at(operations, operation, at, *, late):
    """Perform the operation, cancelled at this await; whether it was, or has fewer awaits."""

    async def perform():
        await work
        await asyncio.sleep(0)  # what was received is handed over first

    work = CancelledAt(await getattr(operations, operation)(), at, late=late)
    how = await outcome(asyncio.create_task(perform()))
    assert (how == "cancelled") == work.was_struck, f"cancelled at await {at}, {late=}: {how!r}"
    return work.was_struck


@pytest.mark.sampled
@pytest.mark.parametrize("late", [False, True], ids=["while it waits", "as the result arrives"])
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_an_operation_that_is_cancelled_at_any_of_its_awaits_ends(world, client, queue, operation, late):
    operations = Operations(world, client, queue)
    for first in range(1, 1000, AT_ONCE):
        attempts = [cancelled_at(operations, operation, at, late=late) for at in range(first, first + AT_ONCE)]
        if not all(await asyncio.gather(*attempts)):
            break
    await client.get_queue_sender(queue).send_messages(ServiceBusMessage("after"))


@pytest.mark.parametrize("times", [60, *nightly(10_000)])
async def test_tasks_that_are_cancelled_at_random_send_nothing_more(world, client, primary, queue, times):
    """Each sends on a sender that all share, until it is cancelled: what it began is stored once at most."""
    chance, sender, begun = random.Random(times), client.get_queue_sender(queue), {}

    async def send_on(name, own):
        for number in range(1_000_000):
            begun[name] = number
            await own.send_messages(ServiceBusMessage(f"{name} {number}"))

    for at in range(0, times, AT_ONCE):
        tasks = {}
        for name in range(at, at + AT_ONCE):
            own = sender if chance.random() < 0.5 else client.get_queue_sender(queue)
            tasks[asyncio.create_task(send_on(name, own))] = chance.uniform(0.0, 0.4)
        for task, wait_s in tasks.items():
            asyncio.get_running_loop().call_later(wait_s, task.cancel)
        assert {await outcome(task) for task in tasks} == {"cancelled"}
    await sender.send_messages(ServiceBusMessage("after"))
    stored = [str(message) for message in primary.drain(queue)]
    assert len(stored) == len(set(stored))
    assert "after" in stored
