"""The messages of a queue by sequence number, with their total size and the times at which they change state."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from emulator.broker.message import NEVER, Message, MessageState, StoredMessage
from emulator.broker.schedule import Schedule


class MessageIndex:
    """The messages of one queue, in every state. Active ones are added in sequence order."""

    __slots__ = ("_activations", "_expiries", "_messages", "_numbers", "deferred_count", "size_bytes")

    def __init__(self) -> None:
        self._messages: dict[int, StoredMessage] = {}
        self._numbers: list[int] = []
        self._expiries: Schedule[int] = Schedule()
        self._activations: Schedule[int] = Schedule()
        self.deferred_count = 0
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def scheduled_count(self) -> int:
        """Messages that become active later."""
        return len(self._activations)

    def get(self, number: int) -> StoredMessage | None:
        """The message with this sequence number, or None."""
        return self._messages.get(number)

    def messages(self) -> Iterator[StoredMessage]:
        """All messages, in sequence order."""
        return iter([self._messages[number] for number in sorted(self._messages)])

    def peek(self, first: int, count: int, now: float, session_id: str | None) -> list[StoredMessage]:
        """Up to `count` messages from this number on that have not expired; of one session where it is given."""
        found: list[StoredMessage] = []
        for position in range(bisect_left(self._numbers, first), len(self._numbers)):
            stored = self._messages.get(self._numbers[position])
            if len(found) >= count:
                break
            if stored is None or stored.expires_at <= now:
                continue
            if session_id is None or stored.message.session_id == session_id:
                found.append(stored)
        return found

    # --- changing --------------------------------------------------------------------------------------------------

    def add(self, stored: StoredMessage) -> float:
        """Add a message; returns when it expires or becomes active, infinity if never."""
        number, due = stored.sequence_number, stored.expires_at
        self._messages[number] = stored
        if self._numbers and number < self._numbers[-1]:
            insort(self._numbers, number)
        else:
            self._numbers.append(number)
        self.size_bytes += stored.message.size
        if due != NEVER:
            self._expiries.set(number, due)
        if stored.state is MessageState.DEFERRED:
            self.deferred_count += 1
        elif stored.state is MessageState.SCHEDULED and stored.scheduled_at is not None:
            self._activations.set(number, stored.scheduled_at)
            due = min(due, stored.scheduled_at)
        return due

    def remove(self, stored: StoredMessage) -> None:
        """Remove a message."""
        number = stored.sequence_number
        del self._messages[number]
        stored.is_removed = True
        self.size_bytes -= stored.message.size
        if stored.state is MessageState.DEFERRED:
            self.deferred_count -= 1
        elif stored.state is MessageState.SCHEDULED:
            self._activations.discard(number)
        self._expiries.discard(number)
        # The numbers stay sorted for peeking; those of removed messages are dropped once they are the majority.
        if len(self._numbers) > 2 * len(self._messages) + 64:
            self._numbers = sorted(self._messages)

    def replace(self, stored: StoredMessage, message: Message) -> None:
        """Give a stored message other properties."""
        self.size_bytes += message.size - stored.message.size
        stored.message = message

    def defer(self, stored: StoredMessage) -> None:
        """Mark a message as deferred."""
        if stored.state is not MessageState.DEFERRED:
            stored.state = MessageState.DEFERRED
            self.deferred_count += 1

    # --- time ------------------------------------------------------------------------------------------------------

    def next_due(self) -> float:
        """When the next message expires or becomes active; infinity if never."""
        return min(self._expiries.next_due(), self._activations.next_due())

    def take_activated(self, now: float) -> list[int]:
        """The sequence numbers of messages whose scheduled time has come."""
        return list(self._activations.take_due(now))

    def take_expired(self, now: float) -> list[int]:
        """The sequence numbers of messages whose time to live is over."""
        return list(self._expiries.take_due(now))

    def expire_later(self, stored: StoredMessage, until: float) -> None:
        """Report an expired message again at this time: it is locked until then."""
        self._expiries.set(stored.sequence_number, until)
