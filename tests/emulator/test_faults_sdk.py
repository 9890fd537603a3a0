"""Every fault, as the user of the SDK meets it, blocking and asyncio: its exception (docs/emulator.md).

All cases run at once, each on an entity of its own, because most of the time goes to the SDK's own pauses.
"""

import asyncio
import gc
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from threading import Thread
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient as AsyncServiceBusClient
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessageNotFoundError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    OperationTimeoutError,
    ServiceBusAuthenticationError,
    ServiceBusConnectionError,
    ServiceBusError,
    ServiceBusQuotaExceededError,
    ServiceBusServerBusyError,
)

from emulator.running import EmulatorError, RunningNamespace, running

BUSY, INTERNAL = "com.microsoft:server-busy", "amqp:internal-error"
# What strikes a connection has no entity: each case has a namespace of its own.
CONNECT_CASES = [("connect", effect) for effect in ("refuse", "reset", "close", "delay", "silent")]
CONNECT_CASES += [("open", effect) for effect in ("reset", "close", "delay", "silent")]


class NothingReceived(Exception):
    """The SDK says nothing of the fault: its receive returns an empty list."""


class StillWaiting(Exception):
    """The SDK is reported a timeout and waits on when it has passed."""


@dataclass(frozen=True)
class Case:
    """One fault and what comes of it: an exception class with a condition, or None for success."""

    operation: str
    effect: str
    raises: type[Exception] | None
    condition: str | None = None
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def patience_s(self) -> float:
        """How long the caller waits: short only where waiting in vain is the point."""
        return 2 if self.raises in (OperationTimeoutError, NothingReceived, StillWaiting) else 30

    @property
    def watch_s(self) -> float:
        """How long the test watches before it says that the caller waits for ever: long where that is wrong."""
        return 15 if self.raises is StillWaiting else 240

    @property
    def settle_timeout_s(self) -> float:
        """How long the SDK waits for the answer to a settlement; 60 by itself."""
        return 1 if self.effect in ("silent", "lose_ack") else 60

    @property
    def id(self) -> str:
        return "-".join([self.operation, self.effect, *(str(value) for value in self.more.values())]).replace(":", ".")


CASES = [
    Case("send", "reject", ServiceBusError, INTERNAL),
    Case("send", "reject", ServiceBusServerBusyError, BUSY, {"condition": BUSY}),
    Case("send", "reject", MessagingEntityDisabledError, None, {"condition": "com.microsoft:entity-disabled"}),
    Case("send", "reject", ServiceBusQuotaExceededError, None, {"condition": "amqp:resource-limit-exceeded"}),
    Case("send", "reject", MessagingEntityNotFoundError, None, {"condition": "amqp:not-found"}),
    Case("send", "reset", ServiceBusConnectionError, "amqp:socket-error"),
    Case("send", "detach", ServiceBusConnectionError, "amqp:unknown-error"),
    Case("send", "close", ServiceBusConnectionError, "amqp:unknown-error"),
    Case("send", "end", ServiceBusConnectionError),
    Case("send", "silent", OperationTimeoutError),
    Case("send", "lose_ack", OperationTimeoutError),
    Case("send", "released", StillWaiting),
    Case("send", "modified", StillWaiting),
    Case("send", "delay", None, None, {"delay_s": 0.2}),
    Case("send", "delay", OperationTimeoutError, None, {"delay_s": 40}),
    Case("attach", "refuse", ServiceBusError, INTERNAL),
    Case("attach", "refuse", MessagingEntityNotFoundError, None, {"condition": "amqp:not-found"}),
    Case("attach", "refuse", ServiceBusServerBusyError, BUSY, {"condition": BUSY}),
    Case("attach", "silent", OperationTimeoutError),
    Case("attach", "reset", ServiceBusConnectionError, "amqp:socket-error"),
    Case("attach", "detach", ServiceBusConnectionError, "amqp:unknown-error"),
    Case("attach", "close", ServiceBusConnectionError, INTERNAL),
    Case("attach", "end", ServiceBusConnectionError),
    Case("attach", "delay", None, None, {"delay_s": 0.2}),
    Case("cbs", "status", ServiceBusAuthenticationError, None, {"status": 401}),
    Case("cbs", "status", ServiceBusAuthenticationError, None, {"status": 500}),
    Case("cbs", "silent", OperationTimeoutError),
    Case("cbs", "reset", ServiceBusConnectionError, "amqp:socket-error"),
    Case("cbs", "detach", OperationTimeoutError),
    Case("cbs", "close", ServiceBusConnectionError, INTERNAL),
    Case("cbs", "end", ServiceBusConnectionError),
    Case("cbs", "delay", None, None, {"delay_s": 0.2}),
    Case("receive", "reset", ServiceBusConnectionError, "amqp:socket-error"),
    Case("receive", "detach", ServiceBusError, INTERNAL),
    Case("receive", "close", ServiceBusConnectionError, INTERNAL),
    Case("receive", "end", ServiceBusConnectionError),
    Case("receive", "silent", NothingReceived),
    Case("receive", "delay", None, None, {"delay_s": 0.2}),
    Case("settle", "reject", MessageLockLostError, None, {"condition": "com.microsoft:message-lock-lost"}),
    Case("settle", "reject", ServiceBusError, INTERNAL),
    Case("settle", "reset", ServiceBusConnectionError, "amqp:socket-error"),
    Case("settle", "detach", None),
    Case("settle", "close", ServiceBusConnectionError, "amqp:socket-error"),
    Case("settle", "end", ServiceBusConnectionError, "amqp:socket-error"),
    Case("settle", "silent", None),
    Case("settle", "lose_ack", None),
    Case("settle", "released", ServiceBusError, INTERNAL),
    Case("settle", "modified", ServiceBusError, INTERNAL),
    Case("settle", "delay", None, None, {"delay_s": 0.2}),
    Case("manage", "status", ServiceBusError, None, {"status": 503}),
    Case("manage", "status", MessageNotFoundError, None, {"condition": "com.microsoft:message-not-found"}),
    Case("manage", "silent", OperationTimeoutError),
    Case("manage", "lose_ack", OperationTimeoutError),
    Case("manage", "reset", ServiceBusConnectionError),
    Case("manage", "detach", ServiceBusError),
    Case("manage", "close", ServiceBusError),
    Case("manage", "end", ServiceBusError),
    Case("manage", "delay", None, None, {"delay_s": 0.2}),
]


class Blocking:
    """A blocking client, or what it opens, as one of asyncio: each call on a thread, as the SDK can wait for ever."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._inner, name)
        if name.startswith("get_"):
            return lambda *arguments, **more: Blocking(call(*arguments, **more))
        return lambda *arguments, **more: asyncio.wrap_future(in_thread(partial(call, *arguments, **more)))

    async def __aenter__(self) -> "Blocking":
        await asyncio.wrap_future(in_thread(self._inner.__enter__))
        return self

    async def __aexit__(self, *error: object) -> None:
        await asyncio.wrap_future(in_thread(partial(self._inner.__exit__, *error)))


def in_thread(call: Callable[[], Any]) -> Future[Any]:
    future: Future[Any] = Future()

    def run() -> None:
        future.set_running_or_notify_cancel()
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    return future


WORLDS = ("blocking", "asyncio")


def opened(world: str, namespace: RunningNamespace) -> Any:
    if world == "asyncio":
        return AsyncServiceBusClient.from_connection_string(namespace.connection_string, retry_total=0)
    return Blocking(ServiceBusClient.from_connection_string(namespace.connection_string, retry_total=0))


def entity_of(case: Case, world: str) -> str:
    return f"{world}/{case.id}"


def connect_namespace(case: tuple[str, str], world: str) -> str:
    return "-".join([world, *case])


@pytest.fixture(scope="module")
def namespaces():
    cases = [f"main/{entity_of(case, world)}" for case in CASES for world in WORLDS]
    connects = [f"{connect_namespace(case, world)}/orders" for case in CONNECT_CASES for world in WORLDS]
    names = ["main", *(name.partition("/")[0] for name in connects)]
    with running(*names, entities=[*cases, *connects, "main/orders", "main/other"]) as namespaces:
        yield namespaces


@pytest.fixture(scope="module")
def outcomes(namespaces):
    """What came of each case, by world and case id or effect: futures, since all of them run at once."""
    work = {(world, case.id): perform(namespaces["main"], world, case) for case in CASES for world in WORLDS}
    work |= {
        (world, case): connect_under(namespaces[connect_namespace(case, world)], world, *case)
        for case in CONNECT_CASES
        for world in WORLDS
    }
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, daemon=True).start()
    futures = {key: asyncio.run_coroutine_threadsafe(each, loop) for key, each in work.items()}
    yield futures
    loop.call_soon_threadsafe(loop.stop)
    futures.clear()
    with warnings.catch_warnings():  # the SDK leaves sockets open that failed while it opened
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


async def perform(namespace: RunningNamespace, world: str, case: Case) -> tuple[BaseException | None, dict[str, Any]]:
    """What the SDK's user gets, and the entity's counters afterwards."""
    entity = entity_of(case, world)
    async with opened(world, namespace) as client:
        if case.operation in ("receive", "settle", "manage"):
            async with client.get_queue_sender(entity) as sender:
                await sender.send_messages(ServiceBusMessage("waiting"))
        fault = await asyncio.to_thread(namespace.fault, case.operation, case.effect, entity=entity, **case.more)
        attempt = asyncio.ensure_future(ACTIONS[case.operation](client, entity, case))
        await asyncio.wait([attempt], timeout=case.watch_s)
        raised: BaseException | None = attempt.exception() if attempt.done() else StillWaiting()
        attempt.cancel()  # nothing waits for its end: the SDK can miss that it was cancelled
        stats = await asyncio.to_thread(namespace.stats)
        await asyncio.to_thread(namespace.mend, fault)
        return raised, stats[entity]


async def send(client, entity, case):
    async with client.get_queue_sender(entity) as sender:
        await sender.send_messages(ServiceBusMessage("x"), timeout=case.patience_s)


async def open_and_send(client, entity, case):
    sender = client.get_queue_sender(entity)  # entered by `async with` it would open without a timeout
    try:
        await sender.send_messages(ServiceBusMessage("x"), timeout=case.patience_s)
    finally:
        await sender.close()


async def receive(client, entity, case):
    async with client.get_queue_receiver(entity) as receiver:
        if not await receiver.receive_messages(1, max_wait_time=case.patience_s):
            raise NothingReceived


async def settle(client, entity, case):
    async with client.get_queue_receiver(entity, timeout=case.settle_timeout_s) as receiver:
        [message] = await receiver.receive_messages(1, max_wait_time=case.patience_s)
        await receiver.complete_message(message)


async def peek(client, entity, case):
    async with client.get_queue_receiver(entity) as receiver:
        assert await receiver.peek_messages(1, timeout=case.patience_s)


ACTIONS = {
    "send": send,
    "attach": open_and_send,
    "cbs": open_and_send,
    "receive": receive,
    "settle": settle,
    "manage": peek,
}


async def connect_under(namespace: RunningNamespace, world: str, operation: str, effect: str) -> Exception | None:
    await asyncio.to_thread(namespace.fault, operation, effect, **({"delay_s": 0.2} if effect == "delay" else {}))
    if (effect, world) == ("silent", "blocking"):
        # The blocking SDK waits for ever here: removing the fault ends what it silenced.
        asyncio.get_running_loop().call_later(2, in_thread, namespace.mend)
    async with opened(world, namespace) as client:
        sender = client.get_queue_sender("orders")
        timeout_s = 2 if (effect, world) == ("silent", "asyncio") else 30
        try:
            await sender.send_messages(ServiceBusMessage("x"), timeout=timeout_s)
        except ServiceBusError as error:
            return error
        finally:
            if world == "blocking":
                await sender.close()
    return None


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_fault_looks_to_the_sdk_as_it_should(outcomes, case, world):
    raised, stats = outcomes[world, case.id].result(300)
    if case.raises is None:
        assert raised is None
    else:
        assert type(raised) is case.raises, raised
        if case.condition is not None:
            assert raised._condition == case.condition
    if case.operation == "send":
        assert stats["enqueued"] == (1 if case.raises is None or case.effect == "lose_ack" else 0)
    if case.operation == "settle":
        assert stats["completed"] == (0 if case.raises else 1)


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("case", CONNECT_CASES, ids="-".join)
def test_a_fault_of_the_connection_looks_to_the_sdk_as_it_should(outcomes, case, world):
    effect = case[1]
    raises = type(None) if effect == "delay" else ServiceBusConnectionError
    if (effect, world) == ("silent", "asyncio"):
        raises = OperationTimeoutError
    assert type(outcomes[world, case].result(300)) is raises


def test_the_emulators_own_interface_is_answered_whatever_the_faults(namespaces):
    main = namespaces["main"]
    ids = [main.fault("connect", effect) for effect in ("refuse", "silent")]
    try:
        assert {fault["id"] for fault in main.faults()} >= set(ids)
    finally:
        for fault_id in ids:
            main.mend(fault_id)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"operation": "send", "effect": "refuse"}, "no meaning for send"),
        ({"operation": "attach", "effect": "lose_ack"}, "no meaning for attach"),
        ({"operation": "publish", "effect": "reset"}, "operation must be one of"),
        ({"operation": "connect", "effect": "reset", "entity": "orders"}, "no entity yet"),
        ({"operation": "send", "effect": "delay"}, "needs delay_s"),
        ({"operation": "send", "effect": "reset", "probability": 2}, "between 0 and 1"),
        ({"operation": "send", "effect": "reset", "count": 0}, "at least 1"),
        ({"operation": "send", "effect": "reset", "seconds": -1}, "above 0"),
        ({"operation": "send", "effect": "reset", "seconds": float("nan")}, "above 0"),
        ({"operation": "send", "effect": "reset", "seconds": 10**400}, "above 0"),
        ({"operation": "send", "effect": "delay", "delay_s": float("nan")}, "between 0 and 86400"),
        ({"operation": "cbs", "effect": "status", "status": 42}, "between 400 and 599"),
        ({"operation": "send", "effect": "reset", "colour": "red"}, "no field"),
    ],
)
def test_a_fault_without_meaning_is_refused_with_the_reason(namespaces, fault, reason):
    with pytest.raises(EmulatorError, match=reason):
        namespaces["main"].fault(**fault)


def test_a_fault_strikes_as_often_as_it_says_and_only_its_entity(namespaces):
    main = namespaces["main"]
    main.fault("send", "reject", entity="ORDERS", count=2)
    with (
        ServiceBusClient.from_connection_string(main.connection_string, retry_total=0) as client,
        client.get_queue_sender("orders") as sender,
        client.get_queue_sender("other") as other,
    ):
        for _ in range(2):
            other.send_messages(ServiceBusMessage("x"))
            with pytest.raises(ServiceBusError):
                sender.send_messages(ServiceBusMessage("x"))
        sender.send_messages(ServiceBusMessage("x"))


def test_a_fault_ends_by_itself_after_its_seconds_and_ends_what_it_silenced(namespaces):
    main = namespaces["main"]
    with (
        ServiceBusClient.from_connection_string(main.connection_string, retry_total=0) as client,
        client.get_queue_sender("other") as sender,
    ):
        main.fault("send", "silent", entity="other", seconds=3)  # the link is open: only the send has to begin in it
        with pytest.raises(ServiceBusConnectionError):
            sender.send_messages(ServiceBusMessage("x"), timeout=60)
        sender.send_messages(ServiceBusMessage("x"))
    assert [fault for fault in main.faults() if fault["entity"] == "other"] == []
