"""Settling many messages of a backlog queue: the public way, one by one, and a faster one where the SDK has it.

Both do the same and are tested by the same tests. The faster way uses what the SDK has but does not publish: one
disposition for a range of deliveries, one request for many lock tokens. It is tried only where all of that is there.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from azure.servicebus import ServiceBusReceiver
from azure.servicebus.exceptions import MessageAlreadySettled, MessageLockLostError, MessageNotFoundError

from pairing.homecoming import Settled, Verb

_LOST = (MessageLockLostError, MessageNotFoundError)


class Settlement(Protocol):
    """A way to settle; outcomes in the order of the messages."""

    def settle(
        self, receiver: ServiceBusReceiver, verb: Verb, messages: list[Any], reason: str, description: str
    ) -> Iterator[Settled]: ...


class OneByOne:
    """The public way: a round trip for each message."""

    def settle(
        self, receiver: ServiceBusReceiver, verb: Verb, messages: list[Any], reason: str, description: str
    ) -> Iterator[Settled]:
        """Settles each message; yields as it goes, so that what was done is known where the link breaks."""
        settle = _public(receiver, verb, reason, description)
        for message in messages:
            try:
                settle(message)
            except _LOST:
                yield "lost"
            except MessageAlreadySettled:
                yield "done"
            else:
                yield "done"


def _public(receiver: ServiceBusReceiver, verb: Verb, reason: str, description: str) -> Callable[[Any], None]:
    match verb:
        case "complete":
            return receiver.complete_message
        case "defer":
            return receiver.defer_message
        case "abandon":
            return receiver.abandon_message
        case "dead_letter":
            return lambda message: receiver.dead_letter_message(message, reason, description)


def collected(outcomes: Iterable[Settled], into: list[Settled]) -> None:
    """Fills ``into`` as far as the outcomes come."""
    for outcome in outcomes:
        into.append(outcome)
