"""The metering of the application's receivers: the SDK's receivers of the primary, with every call counted.

Two tables say which method counts as what; the receivers for threads and asyncio wrap the SDK's methods accordingly.
"""

import contextlib
from collections.abc import Callable, Mapping
from functools import partial, wraps
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from azure.servicebus import ServiceBusReceivedMessage

from pairing.drive import Operation, call
from pairing.messages.sizes import received_size
from pairing.telemetry.metering import UsageMeter, billing_units

Count = Callable[..., None]
ClassT = TypeVar("ClassT", bound=type)


class Counted(NamedTuple):
    """How a call is counted: as billed if it succeeds, and as an unbilled attempt if it fails."""

    kind: str
    numbers: Mapping[str, int] = MappingProxyType({})

    def __call__(self, count: Count, outcome: Any) -> None:
        """Count a call that has succeeded."""
        count(self.kind, **self.numbers)


class CountedReceive(Counted):
    """Received messages are counted with their sizes; an empty result is an empty receive."""

    __slots__ = ()

    def __call__(self, count: Count, outcome: Any) -> None:
        """Count the messages of a call that has succeeded."""
        count_received(count, outcome)


RECEIVE = CountedReceive("receive")
MANAGE = Counted("manage", {"billing_units": 1})
SETTLE = Counted("settle", {"messages": 1, "billing_units": 1})

RECEIVER: dict[str, Counted] = {
    "receive_messages": RECEIVE,
    "receive_deferred_messages": RECEIVE,
    "peek_messages": MANAGE,
    "renew_message_lock": MANAGE,
    "complete_message": SETTLE,
    "abandon_message": SETTLE,
    "defer_message": SETTLE,
    "dead_letter_message": SETTLE,
}
SESSION: dict[str, Counted] = {"get_state": MANAGE, "set_state": MANAGE, "renew_lock": MANAGE}


def metered(
    table: dict[str, Counted], in_world: Callable[[Callable[..., Operation[Any]]], Callable[..., Any]]
) -> Callable[[ClassT], ClassT]:
    """Wrap the methods of an SDK class that the table names; ``in_world`` runs an operation."""

    def wrap_all(class_: ClassT) -> ClassT:
        for name, counted in table.items():
            method = getattr(class_, name)
            setattr(class_, name, wraps(method)(in_world(partial(_metered_call, counted, method))))
        return class_

    return wrap_all


def _metered_call(
    counted: Counted, method: Callable[..., Any], metered_self: Any, /, *arguments: Any, **keywords: Any
) -> Operation[Any]:
    count: Count = metered_self._count
    try:
        outcome = yield from call(method, metered_self, *arguments, **keywords)
    except BaseException:
        count(counted.kind)
        raise
    counted(count, outcome)
    return outcome


def count_received(count: Count, messages: list[ServiceBusReceivedMessage]) -> None:
    """Count received messages, or an empty receive."""
    if not messages:
        count("receive_empty", billing_units=1)
        return
    sizes = [received_size(message) for message in messages]
    count("receive", messages=len(messages), bytes=sum(sizes), billing_units=sum(map(billing_units, sizes)))


def count_handed_back(receiver: Any, callback: str) -> None:
    """Also count messages as ``receive`` that arrive while nothing receives, because credit outlives its call.

    The SDK releases such a message immediately and reports it to nobody; it was delivered, and is billed nevertheless.
    """
    handler = getattr(receiver, "_handler", None)
    context = getattr(receiver, "_receive_context", None)
    received = vars(handler).get(callback) if hasattr(handler, "__dict__") else None
    if context is None or received is None:
        return

    def counted(frame: Any, message: Any) -> Any:
        if not context.is_set():
            with contextlib.suppress(Exception):  # the SDK's callback: the message must reach it in any case
                count_received(receiver._count, [ServiceBusReceivedMessage(message, frame=frame, receiver=receiver)])
        return received(frame, message)

    setattr(handler, callback, counted)


def meter_receiver(receiver: Any, receiver_class: type, session_class: type, count: Count) -> None:
    """Let a receiver count from now on; it remains an instance of the SDK's class."""
    receiver.__class__ = receiver_class
    receiver._count = count
    if receiver.session is not None:
        receiver.session.__class__ = session_class
        receiver.session._count = count


def meter_pages(pages: Any, pages_class: type, count: Count) -> None:
    """Count pages when they are fetched."""
    pages.__class__ = pages_class
    pages._count = count


def counting(meter: UsageMeter, namespace: str, entity: str) -> Count:
    """A function that counts the operations of an entity."""
    return lambda kind, **numbers: meter.count(kind, namespace, entity, **numbers)
