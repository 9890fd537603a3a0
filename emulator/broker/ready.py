"""Which message is next, and who takes it."""

from __future__ import annotations

import heapq
from collections import deque
from typing import Protocol

from emulator.broker.message import MessageState, StoredMessage


class Consumer(Protocol):
    """A receiver that waits for messages."""

    def accepts(self, now: float) -> bool:
        """Whether it takes one more message now. Once it says no, it has to wait anew."""

    def deliver(self, stored: StoredMessage, now: float) -> None:
        """Take this message: locked for it, or removed already where it `deletes`."""

    def entity_gone(self, condition: str, text: str) -> None:
        """The entity was deleted or no longer gives messages."""

    @property
    def deletes(self) -> bool:
        """Whether messages leave the queue when they are delivered (receive and delete)."""


class Ready:
    """Messages that are active and not locked, in sequence order. Removed ones are skipped when their turn comes."""

    __slots__ = ("_fresh", "_returned", "count")

    def __init__(self) -> None:
        self._fresh: deque[StoredMessage] = deque()
        self._returned: list[tuple[int, StoredMessage]] = []
        self.count = 0

    def append(self, stored: StoredMessage) -> None:
        """A new message: its sequence number is the highest."""
        self._fresh.append(stored)
        self.count += 1

    def give_back(self, stored: StoredMessage) -> None:
        """A message whose lock ended: it returns to its old place."""
        heapq.heappush(self._returned, (stored.sequence_number, stored))
        self.count += 1

    def forget(self) -> None:
        """One of the waiting messages left the queue; it is skipped when its turn comes."""
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
