"""Active messages in the order of delivery, and the receivers they are delivered to."""

from __future__ import annotations

import heapq
from collections import deque
from typing import Protocol

from emulator.broker.message import MessageState, StoredMessage


class Consumer(Protocol):
    """A receiver that waits for messages."""

    def accepts(self, now: float) -> bool:
        """Whether it takes another message now. After a refusal it must call `wait` again."""

    def deliver(self, stored: StoredMessage, now: float) -> None:
        """Deliver this message: locked, or already removed where it `deletes`."""

    def entity_gone(self, condition: str, text: str) -> None:
        """The entity was deleted or no longer allows receiving."""

    @property
    def deletes(self) -> bool:
        """Whether messages are removed on delivery (receive and delete)."""


class ReadyMessages:
    """Active, unlocked messages in sequence order. Removed messages are skipped when their turn comes."""

    __slots__ = ("_fresh", "_returned", "count")

    def __init__(self) -> None:
        self._fresh: deque[StoredMessage] = deque()
        self._returned: list[tuple[int, StoredMessage]] = []
        self.count = 0

    def append(self, stored: StoredMessage) -> None:
        """Append a new message: its sequence number is the highest."""
        self._fresh.append(stored)
        self.count += 1

    def give_back(self, stored: StoredMessage) -> None:
        """Return a message to its old place."""
        heapq.heappush(self._returned, (stored.sequence_number, stored))
        self.count += 1

    def forget(self) -> None:
        """Uncount a message that left the queue while it waited; it is skipped when its turn comes."""
        self.count -= 1

    def take(self) -> StoredMessage | None:
        """The next message, or None."""
        while self._fresh or self._returned:
            stored = self._next()
            if stored.state is MessageState.ACTIVE and stored.lock_token is None and not stored.is_removed:
                self.count -= 1
                return stored
        return None

    def _next(self) -> StoredMessage:
        if not self._fresh:
            return heapq.heappop(self._returned)[1]
        if self._returned and self._returned[0][0] < self._fresh[0].sequence_number:
            return heapq.heappop(self._returned)[1]
        return self._fresh.popleft()
