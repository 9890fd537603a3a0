"""Every fault, as the user of the SDK meets it, blocking and asyncio: its exception (docs/emulator.md).

All cases run at once, each on an entity of its own, because most of the time goes to the SDK's own pauses.
"""

import asyncio
import gc
import warnings
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
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


WORLDS = ("blocking", "asyncio")


def entity_of(case: Case, world: str) -> str:
    return f"{world}/{case.id}"


@pytest.fixture(scope="module")
def namespaces():
    cases = [f"main/{entity_of(case, world)}" for case in CASES for world in WORLDS]
    connects = [f"{connect_namespace(case, world)}/orders" for case in CONNECT_CASES for world in WORLDS]
    names = ["main", *(name.partition("/")[0] for name in connects)]
    with running(*names, entities=[*cases, *connects, "main/orders", "main/other"]) as namespaces:
        yield namespaces


def connect_namespace(case: tuple[str, str], world: str) -> str:
    return "-".join([world, *case])


@pytest.fixture(scope="module")
def outcomes(namespaces):
    """What came of each case, by world and case id or effect: futures, since all of them run at once."""
    main = namespaces["main"]
    blocking = {("blocking", case.id): in_thread(perform, main, case) for case in CASES} | {
        ("blocking", case): in_thread(connect_under, namespaces[connect_namespace(case, "blocking")], *case)
        for case in CONNECT_CASES
    }
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, daemon=True).start()
    asynchronous = {("asyncio", case.id): perform_async(main, case) for case in CASES} | {
        ("asyncio", case): connect_under_async(namespaces[connect_namespace(case, "asyncio")], *case)
        for case in CONNECT_CASES
    }
    futures = blocking | {key: asyncio.run_coroutine_threadsafe(work, loop) for key, work in asynchronous.items()}
    yield futures
    loop.call_soon_threadsafe(loop.stop)
    futures.clear()
    with warnings.catch_warnings():  # the SDK leaves sockets open that failed while it opened
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def in_thread(call, *arguments) -> Future[Any]:
    """Run something on a thread that nothing waits for in the end: the SDK can wait for ever."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(call(*arguments))
        except BaseException as error:
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    return future


# --- the blocking client --------------------------------------------------------------------------------------------


def perform(namespace: RunningNamespace, case: Case) -> tuple[Exception | None, dict[str, Any]]:
    """What the SDK's user gets, and the entity's counters afterwards."""
    entity = entity_of(case, "blocking")
    with ServiceBusClient.from_connection_string(namespace.connection_string, retry_total=0) as client:
        if case.operation in ("receive", "settle", "manage"):
            with client.get_queue_sender(entity) as sender:
                sender.send_messages(ServiceBusMessage("waiting"))
        fault = namespace.fault(case.operation, case.effect, entity=entity, **case.more)
        attempt = in_thread(ACTIONS[case.operation], client, entity, case)
        raised: BaseException | None = None
        try:
            raised = attempt.exception(case.watch_s)
        except TimeoutError:
            raised = StillWaiting()
        stats = namespace.stats()[entity]
        namespace.mend(fault)
        return raised, stats


def send(client, entity, case):
    with client.get_queue_sender(entity) as sender:
        sender.send_messages(ServiceBusMessage("x"), timeout=case.patience_s)


def open_and_send(client, entity, case):
    sender = client.get_queue_sender(entity)  # entered by `with` it would open without a timeout
    try:
        sender.send_messages(ServiceBusMessage("x"), timeout=case.patience_s)
    finally:
        sender.close()


def receive(client, entity, case):
    with client.get_queue_receiver(entity) as receiver:
        if not receiver.receive_messages(1, max_wait_time=case.patience_s):
            raise NothingReceived


def settle(client, entity, case):
    with client.get_queue_receiver(entity, timeout=case.settle_timeout_s) as receiver:
        [message] = receiver.receive_messages(1, max_wait_time=case.patience_s)
        receiver.complete_message(message)


def peek(client, entity, case):
    with client.get_queue_receiver(entity) as receiver:
        assert receiver.peek_messages(1, timeout=case.patience_s)


ACTIONS = {
    "send": send,
    "attach": open_and_send,
    "cbs": open_and_send,
    "receive": receive,
    "settle": settle,
    "manage": peek,
}


def connect_under(namespace: RunningNamespace, operation: str, effect: str) -> Exception | None:
    namespace.fault(operation, effect, **({"delay_s": 0.2} if effect == "delay" else {}))
    with ServiceBusClient.from_connection_string(namespace.connection_string, retry_total=0) as client:
        try:
            if effect == "silent":
                return connect_silenced(client, namespace)
            open_sender(client)
        except ServiceBusError as error:
            return error
    return None


def open_sender(client):
    sender = client.get_queue_sender("orders")
    try:
        sender.send_messages(ServiceBusMessage("x"), timeout=30)
    finally:
        sender.close()


def connect_silenced(client, namespace) -> Exception | None:
    """The SDK waits for ever here, so the fault is removed while it does: that ends what it silenced."""
    attempt = in_thread(open_sender, client)
    with suppress(TimeoutError):
        attempt.result(2)
        raise AssertionError("a silent connection was opened")
    namespace.mend()
    return attempt.exception(120)


# --- the asyncio client ---------------------------------------------------------------------------------------------


async def perform_async(namespace: RunningNamespace, case: Case) -> tuple[BaseException | None, dict[str, Any]]:
    entity = entity_of(case, "asyncio")
    async with AsyncServiceBusClient.from_connection_string(namespace.connection_string, retry_total=0) as client:
        if case.operation in ("receive", "settle", "manage"):
            async with client.get_queue_sender(entity) as sender:
                await sender.send_messages(ServiceBusMessage("waiting"))
        fault = await asyncio.to_thread(namespace.fault, case.operation, case.effect, entity=entity, **case.more)
        attempt = asyncio.ensure_future(ASYNC_ACTIONS[case.operation](client, entity, case))
        await asyncio.wait([attempt], timeout=case.watch_s)
        raised: BaseException | None = attempt.exception() if attempt.done() else StillWaiting()
        attempt.cancel()  # nothing waits for its end: the SDK can miss that it was cancelled
        stats = await asyncio.to_thread(namespace.stats)
        await asyncio.to_thread(namespace.mend, fault)
        return raised, stats[entity]


async def send_async(client, entity, case):
    async with client.get_queue_sender(entity) as sender:
        await sender.send_messages(ServiceBusMessage("x"), timeout=case.patience_s)


async def open_and_send_async(client, entity, case):
    sender = client.get_queue_sender(entity)
    try:
        await sender.send_messages(ServiceBusMessage("x"), timeout=case.patience_s)
    finally:
        await sender.close()


async def receive_async(client, entity, case):
    async with client.get_queue_receiver(entity) as receiver:
        if not await receiver.receive_messages(1, max_wait_time=case.patience_s):
            raise NothingReceived


async def settle_async(client, entity, case):
    async with client.get_queue_receiver(entity, timeout=case.settle_timeout_s) as receiver:
        [message] = await receiver.receive_messages(1, max_wait_time=case.patience_s)
        await receiver.complete_message(message)


async def peek_async(client, entity, case):
    async with client.get_queue_receiver(entity) as receiver:
        assert await receiver.peek_messages(1, timeout=case.patience_s)


ASYNC_ACTIONS = {
    "send": send_async,
    "attach": open_and_send_async,
    "cbs": open_and_send_async,
    "receive": receive_async,
    "settle": settle_async,
    "manage": peek_async,
}


async def connect_under_async(namespace: RunningNamespace, operation: str, effect: str) -> Exception | None:
    delay = {"delay_s": 0.2} if effect == "delay" else {}
    await asyncio.to_thread(namespace.fault, operation, effect, **delay)
    async with AsyncServiceBusClient.from_connection_string(namespace.connection_string, retry_total=0) as client:
        try:
            sender = client.get_queue_sender("orders")  # entered by `async with` it would open without a timeout
            await sender.send_messages(ServiceBusMessage("x"), timeout=2 if effect == "silent" else 30)
        except ServiceBusError as error:
            return error
    return None


# --- what came of it ------------------------------------------------------------------------------------------------


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
