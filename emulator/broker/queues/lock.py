"""Peek-lock: a delivered message stays in its queue, hidden, until it is settled or its lock lapses.

A lock has a token and an end. The message is settled with the token, and only before the end; a settlement after the
lock has lapsed fails with MessageLockLost. Releasing makes the message available again without counting the delivery;
abandoning and lapsing count it.

A token is sixteen bytes, the delivery tag of the message; clients read it as a GUID in .NET's byte order.
"""

from __future__ import annotations

from collections.abc import Iterator
from os import urandom

from emulator.broker.errors import MessageLockLost
from emulator.broker.message import StoredMessage
from emulator.broker.schedule import Schedule


class Locks:
    """The locked messages of one queue, by token."""

    __slots__ = ("_ends", "_held")

    def __init__(self) -> None:
        self._held: dict[bytes, StoredMessage] = {}
        self._ends: Schedule[bytes] = Schedule()

    def __len__(self) -> int:
        return len(self._held)

    def take(self, stored: StoredMessage, until: float) -> bytes:
        """Lock a message with a new token. `until` is infinity where the lock of a session replaces it."""
        token = urandom(16)
        stored.lock_token, stored.locked_until = token, until
        self._held[token] = stored
        if until != float("inf"):
            self._ends.set(token, until)
        return token

    def holder(self, token: bytes | None, now: float) -> StoredMessage:
        """The message locked with this token. Raises MessageLockLost if there is none, or its lock has ended."""
        stored = self._held.get(token) if token is not None else None
        if stored is None or stored.locked_until <= now:
            raise MessageLockLost
        return stored

    def release(self, stored: StoredMessage) -> None:
        """End the message's lock, if it has one."""
        token = stored.lock_token
        if token is not None:
            self._held.pop(token, None)
            self._ends.discard(token)
            stored.lock_token = None

    def renew(self, token: bytes, until: float, now: float) -> None:
        """Extend a lock. Raises MessageLockLost."""
        stored = self.holder(token, now)
        stored.locked_until = until
        self._ends.set(token, until)

    def next_end(self) -> float:
        """When the next lock lapses; infinity if none does."""
        return self._ends.next_due()

    def take_lapsed(self, now: float) -> Iterator[StoredMessage]:
        """Each message whose lock has ended by `now`, unlocked."""
        for token in self._ends.take_due(now):
            stored = self._held.pop(token)
            stored.lock_token = None
            yield stored
