"""The metering of the application's receivers: the SDK's receivers of the primary, with every call counted.

Two tables say which method counts as what; the receivers for threads and asyncio wrap the SDK's methods accordingly.
"""

import contextlib
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, TypeVar

from azure.servicebus import ServiceBusReceivedMessage

from pairing.drive import Operation, call
from pairing.messages.sizes import received_size
from pairing.telemetry.metering import billing_units

Count = Callable[..., None]
ClassT = TypeVar("ClassT", bound=type)


RECEIVER = {
    "receive_messages": "receive",
    "receive_deferred_messages": "receive",
    "peek_messages": "manage",
    "renew_message_lock": "manage",
    "complete_message": "settle",
    "abandon_message": "settle",
    "defer_message": "settle",
    "dead_letter_message": "settle",
}
SESSION = {"get_state": "manage", "set_state": "manage", "renew_lock": "manage"}
_NUMBERS = {"manage": {"billing_units": 1}, "settle": {"messages": 1, "billing_units": 1}}


def metered(
    table: Mapping[str, str], in_world: Callable[[Callable[..., Operation[Any]]], Callable[..., Any]]
) -> Callable[[ClassT], ClassT]:
    """Wrap the methods of an SDK class that the table names; ``in_world`` runs an operation."""

    def wrap_all(class_: ClassT) -> ClassT:
        for name, kind in table.items():
            method = getattr(class_, name)
            setattr(class_, name, wraps(method)(in_world(partial(_metered_call, kind, method))))
        return class_

    return wrap_all


def _metered_call(
    kind: str, method: Callable[..., Any], metered_self: Any, /, *arguments: Any, **keywords: Any
) -> Operation[Any]:
    """A call that is counted as billed if it succeeds, and as an unbilled attempt if it fails."""
    count: Count = metered_self._count
    try:
        outcome = yield from call(method, metered_self, *arguments, **keywords)
    except BaseException:
        count(kind)
        raise
    if kind == "receive":
        count_received(count, outcome)
    else:
        count(kind, **_NUMBERS[kind])
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
