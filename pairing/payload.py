"""What one call to send carries, made ready for either namespace; the same in both worlds."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from azure.servicebus import ServiceBusMessage, ServiceBusMessageBatch
from azure.servicebus.amqp import AmqpAnnotatedMessage
from azure.servicebus.exceptions import MessageSizeExceededError

from pairing.messages import as_message, check_reserved, ensure_message_id, to_backlog
from pairing.metering import billing_units
from pairing.sizes import backlog_overhead, message_size

STANDARD_LIMIT = 262_144
"""Bytes of the largest message in the Standard tier, taken until a link to the backlog tells better."""
_BATCH_ENTRY = 8

OneMessage = ServiceBusMessage | AmqpAnnotatedMessage | Mapping[str, Any]
Messages = OneMessage | Iterable[OneMessage]


class PairedMessageBatch(ServiceBusMessageBatch):
    """A batch that keeps its messages, and room for what the backlog would add to each of them."""

    def __init__(self, max_size_in_bytes: int, *, path: str, require_headroom: bool) -> None:
        super().__init__(max_size_in_bytes=max_size_in_bytes)
        self._path = path
        self._require_headroom = require_headroom
        self._reserved = 0
        self.messages: list[ServiceBusMessage] = []
        """The messages as they were added."""

    def add_message(self, message: OneMessage) -> None:
        """Add one message; MessageSizeExceededError where it, or its way through the backlog, does not fit."""
        ready = ready_message(message)
        reserve = backlog_overhead(ready, self._path) if self._require_headroom else 0
        whole, self._max_size_in_bytes = self.max_size_in_bytes, self.max_size_in_bytes - self._reserved - reserve
        try:
            super().add_message(ready)
        finally:
            self._max_size_in_bytes = whole
        self._reserved += reserve
        self.messages.append(ready)


class Payload:
    """One message, or several that are sent as a batch."""

    __slots__ = ("_rewritten", "messages", "outgoing", "path", "size", "units")

    def __init__(self, messages: list[ServiceBusMessage], outgoing: Any, path: str) -> None:
        self.messages = messages
        self.outgoing = outgoing
        """What the SDK's sender gets for the primary."""
        self.path = path
        self._rewritten: Any = None
        self.size = 0
        self.units = 0

    def measure(self, backlog_limit: int, require_headroom: bool) -> None:
        """Know size and billing units; MessageSizeExceededError where the backlog could not take the message."""
        total = units = 0
        for message in self.messages:
            size = message_size(message, backlog_limit)
            total += size
            units += billing_units(size)
        self.size, self.units = total, units
        if require_headroom and total * 2 > backlog_limit and not isinstance(self.outgoing, PairedMessageBatch):
            self._check_headroom(backlog_limit)

    def _check_headroom(self, limit: int) -> None:
        entries = _BATCH_ENTRY * len(self.messages) if isinstance(self.outgoing, list) else 0
        needed = self.size + entries + sum(backlog_overhead(message, self.path) for message in self.messages)
        if needed > limit:
            raise MessageSizeExceededError(
                message=f"The message takes {self.size} bytes and {needed} bytes on its way through a backlog queue, "
                f"which takes {limit}; require_headroom=False sends it while the primary is healthy."
            )

    def rewritten(self) -> Any:
        """What the SDK's sender gets for a backlog queue."""
        if self._rewritten is None:
            copies = [to_backlog(message, self.path) for message in self.messages]
            self._rewritten = copies[0] if self.outgoing is self.messages[0] else copies
        return self._rewritten

    @property
    def session(self) -> str | None:
        """The session of the (first) message."""
        return self.messages[0].session_id


def ready_message(message: OneMessage) -> ServiceBusMessage:
    """One message as it can be sent: with an id, and none of the properties that are the library's own."""
    ready = message if type(message) is ServiceBusMessage else as_message(message)
    raw = ready.raw_amqp_message
    if raw.properties is None or not raw.properties.message_id:
        ensure_message_id(ready)
    if raw.application_properties:
        check_reserved(ready)
    return ready


def payload(messages: Messages | ServiceBusMessageBatch, path: str) -> Payload | None:
    """What is to be sent; None where there is nothing (an empty list or batch, which the SDK lets pass, too)."""
    if isinstance(messages, ServiceBusMessage | AmqpAnnotatedMessage | Mapping):
        one = ready_message(messages)
        return Payload([one], one, path)
    if isinstance(messages, PairedMessageBatch):
        return Payload(messages.messages, messages, path) if messages.messages else None
    if isinstance(messages, ServiceBusMessageBatch):
        messages = _messages_of(messages)
    ready = [ready_message(message) for message in messages]
    return Payload(ready, ready, path) if ready else None


def _messages_of(batch: ServiceBusMessageBatch) -> list[ServiceBusMessage]:
    kept = getattr(batch, "_messages", None)
    if not isinstance(kept, list) or len(kept) != len(batch):
        raise TypeError("this batch does not tell its messages: make it with the sender's create_message_batch")
    return kept


def scheduled_payload(messages: Messages, when: datetime, path: str) -> Payload | None:
    """What is to be scheduled; the time is written on the messages, as the SDK does."""
    ready = payload(messages, path)
    for message in ready.messages if ready else ():
        message.scheduled_enqueue_time_utc = when
    return ready
