"""What a client sent, as the library sees it: a `Payload` of encoded messages, which are never made into objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from azure.servicebus.exceptions import MessageSizeExceededError

from gateway.guard.backlog import Outgoing
from gateway.guard.rewriting import BATCH_FORMAT, batches, inner_messages, rewritten
from pairing.messages.payload import REWRITTEN_AT_ONCE, Payload
from pairing.telemetry.metering import STEP, billing_units


class Delivery(Payload):
    """One message, or a batch."""

    __slots__ = ("_encoded", "_limit", "_parcels", "data", "message_format")

    def __init__(self, data: bytes, message_format: int, path: str, limit: Callable[[], int]) -> None:
        """`limit`: the most bytes of a batch in a backlog queue, as it is known then. Raises DecodeError."""
        self._encoded = inner_messages(data, message_format)
        self.data = data if message_format == BATCH_FORMAT else self._encoded[0]  # kept once
        super().__init__(self._encoded, Outgoing((self.data,), message_format), path)  # type: ignore[arg-type]
        self.message_format, self._limit = message_format, limit
        self._parcels: list[bytes] = []

    def measure(self, backlog_limit: int, require_headroom: bool) -> None:
        """Determine size and billing units; MessageSizeExceededError if a message would not fit a backlog queue."""
        self.size = len(self.data)
        self.units = len(self.messages) if self.size <= STEP else sum(map(billing_units, map(len, self._encoded)))
        if not require_headroom or self.size * 2 <= backlog_limit:
            return
        large = [each for each in self._encoded if len(each) * 2 > backlog_limit]  # a batch can be split
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
            self._parcels += [rewritten(message, self.path) for message in some]
            yield

    def rewritten(self) -> Outgoing:
        """What goes to a backlog queue: a batch becomes several where it has grown beyond the limit."""
        for _ in self.rewriting():
            continue
        if self.message_format != BATCH_FORMAT:
            return Outgoing(tuple(self._parcels), self.message_format)
        return Outgoing(tuple(batches(self.data, self._parcels, self._limit())), self.message_format)
