"""Peek-lock: a delivered message stays in its queue, hidden, until it is settled or its lock lapses.

A lock is a token and an end. Only who shows the token settles the message, and only before the end; whichever comes
first, settlement or lapse, decides, and the other is told the lock is lost. Releasing gives the message back without
counting a delivery; abandoning and lapsing count one.

A token is sixteen bytes, the delivery tag of the message; clients see it as a GUID in .NET's byte order.
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
        """Lock a message with a new token. `until` may be infinity: a session's lock then guards it."""
        token = urandom(16)
        stored.lock_token, stored.locked_until = token, until
        self._held[token] = stored
        if until != float("inf"):
            self._ends.set(token, until)
        return token

    def holder(self, token: bytes | None, now: float) -> StoredMessage:
        """The message locked with this token. Raises MessageLockLost where there is none, or not any more."""
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
        """Move the end of a lock. Raises MessageLockLost."""
        stored = self.holder(token, now)
        stored.locked_until = until
        self._ends.set(token, until)

    def next_end(self) -> float:
        """When the next lock lapses; infinity where none does."""
        return self._ends.next_due()

    def take_lapsed(self, now: float) -> Iterator[StoredMessage]:
        """Each message whose lock has ended by `now`, unlocked."""
        for token in self._ends.take_due(now):
            stored = self._held.pop(token)
            stored.lock_token = None
            yield stored
