"""What a client sent, as the library sees it: a `Payload` of encoded messages, which are never made into objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from azure.servicebus.exceptions import MessageSizeExceededError

from gateway.guard.backlog import Outgoing
from gateway.guard.rewriting import BATCH_FORMAT, batches, carried_by, inner_messages, rewritten, session_of
from pairing.messages.payload import REWRITTEN_AT_ONCE, Payload
from pairing.telemetry.metering import billing_units


class EncodedMessage:
    """One message of a delivery."""

    message_id = None  # for spans: its id is in that of the client's send

    def __init__(self, data: bytes) -> None:
        self.data = data

    @cached_property
    def session_id(self) -> str | None:
        """Its session. Raises DecodeError."""
        return session_of(self.data)

    @property
    def application_properties(self) -> dict[Any, Any]:
        """Those of the client. Raises DecodeError."""
        return carried_by(self.data)


class Delivery(Payload):
    """One message, or a batch."""

    __slots__ = ("_limit", "_parcels", "data", "message_format")

    def __init__(self, data: bytes, message_format: int, path: str, limit: Callable[[], int]) -> None:
        """`limit`: the most bytes of a batch in a backlog queue, as it is known then. Raises DecodeError."""
        messages = [EncodedMessage(each) for each in inner_messages(data, message_format)]
        super().__init__(messages, Outgoing((data,), message_format), path)  # type: ignore[arg-type]
        self.data, self.message_format = data, message_format
        self._limit = limit
        self._parcels: list[bytes] = []

    def measure(self, backlog_limit: int, require_headroom: bool) -> None:
        """Determine size and billing units; MessageSizeExceededError if a message would not fit a backlog queue."""
        self.size = len(self.data)
        self.units = sum(billing_units(len(message.data)) for message in self._encoded)
        if not require_headroom or self.size * 2 <= backlog_limit:
            return
        large = [each.data for each in self._encoded if len(each.data) * 2 > backlog_limit]  # a batch can be split
        needed = max((len(rewritten(data, self.path)) for data in large), default=0)
        if needed > backlog_limit:
            raise MessageSizeExceededError(
                message=f"The message takes {self.size} bytes and {needed} bytes in a backlog queue, which accepts "
                f"{backlog_limit}."
            )

    def rewriting(self) -> Iterator[None]:
        """Rewrite some messages at a time."""
        while len(self._parcels) < len(self.messages):
            begin = len(self._parcels)
            some = self._encoded[begin : begin + REWRITTEN_AT_ONCE]
            self._parcels += [rewritten(message.data, self.path) for message in some]
            yield

    def rewritten(self) -> Outgoing:
        """What goes to a backlog queue: a batch becomes several where it has grown beyond the limit."""
        for _ in self.rewriting():
            continue
        if self.message_format != BATCH_FORMAT:
            return Outgoing(tuple(self._parcels), self.message_format)
        return Outgoing(tuple(batches(self.data, self._parcels, self._limit())), self.message_format)

    @property
    def _encoded(self) -> list[EncodedMessage]:
        return self.messages  # type: ignore[return-value]
