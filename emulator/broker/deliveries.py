"""What receivers do with the messages of a queue: take them, locked or for good, and settle them."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from emulator.broker.contents import Contents
from emulator.broker.descriptions import QueueDescription
from emulator.broker.errors import BrokerError, MessageNotFound
from emulator.broker.message import NEVER, MessageState, StoredMessage
from emulator.broker.message_session import MessageSession
from emulator.broker.ready import Ready
from emulator.broker.surroundings import Surroundings

if TYPE_CHECKING:
    from emulator.broker.queue import Queue

MAX_UNANSWERED = 10_000


class Deliveries(Contents):
    """The way out of a queue. Where messages go that nobody takes is the queue's to say."""

    def __init__(
        self, description: QueueDescription, surroundings: Surroundings, now: float, parent: Queue | None = None
    ) -> None:
        super().__init__(description, surroundings, now, parent)
        self._unanswered: deque[bytes] = deque(maxlen=MAX_UNANSWERED)

    @abstractmethod
    def _bury(self, stored: StoredMessage, reason: str | None, description: str | None, now: float) -> None:
        """Dead-letter a message."""

    @abstractmethod
    def _expire(self, stored: StoredMessage, now: float) -> None:
        """The time to live of a message is over."""

    # --- taking out --------------------------------------------------------------------------------------------------

    def receive(self, now: float, session: MessageSession | None = None) -> StoredMessage | None:
        """Lock and return the next message, or None."""
        stored = self._next(self._ready if session is None else session.ready, now)
        if stored is not None:
            self._lock(stored, now, session)
            self._delivered(now)
        return stored

    def receive_and_delete(self, now: float, session: MessageSession | None = None) -> StoredMessage | None:
        """Remove and return the next message, or None."""
        stored = self._next(self._ready if session is None else session.ready, now)
        if stored is not None:
            self._remove(stored)
            self._delivered(now)
        return stored

    def receive_deferred(
        self, numbers: Sequence[int], now: float, *, deletes: bool, session_id: str | None = None
    ) -> list[StoredMessage]:
        """Deferred messages by their numbers, locked, or removed where `deletes`. Raises MessageNotFound."""
        session = self.sessions.held(session_id, now) if session_id is not None else None
        found: list[StoredMessage] = []
        for number in numbers:
            stored = self._shelf.get(number)
            if stored is None or stored.state is not MessageState.DEFERRED or stored.lock_token is not None:
                raise MessageNotFound(f"No deferred message has the sequence number {number}.")
            if session_id is not None and stored.message.session_id != session_id:
                raise MessageNotFound(f"No deferred message of the session has the sequence number {number}.")
            found.append(stored)
        for stored in found:
            if deletes:
                self._remove(stored)
            else:
                self._lock(stored, now, session)
            self._delivered(now)
        return found

    def _lock(self, stored: StoredMessage, now: float, session: MessageSession | None) -> None:
        if session is not None:
            token = self._locks.take(stored, NEVER)
            session.out[token] = stored
        else:
            until = now + self.description.lock_duration_s
            self._locks.take(stored, until)
            self._wake(until)

    def _delivered(self, now: float) -> None:
        self.counters.delivered += 1
        self.accessed_at = now

    def _next(self, line: Ready, now: float) -> StoredMessage | None:
        while (stored := line.take()) is not None:
            if stored.expires_at > now:
                return stored
            self._expire(stored, now)
        return None

    # --- settling ----------------------------------------------------------------------------------------------------

    def complete(self, token: bytes, now: float) -> None:
        """Remove the message locked with this token. Raises MessageLockLost, as do the others below."""
        self._remove(self._locks.holder(token, now))
        self.counters.completed += 1

    def abandon(self, token: bytes, now: float) -> None:
        """Give the message back; this delivery counts."""
        stored = self._locks.holder(token, now)
        self._unlock(stored)
        self._failed_delivery(stored, now)

    def release(self, token: bytes, now: float) -> None:
        """Give the message back as if it had never been delivered. A lock that is gone is no error."""
        try:
            stored = self._locks.holder(token, now)
        except BrokerError:
            return
        self._unlock(stored)
        self._give_back(stored, now)

    def defer(self, token: bytes, now: float) -> None:
        """Set the message aside: from now on it is received by its sequence number only. This delivery counts."""
        stored = self._locks.holder(token, now)
        self._unlock(stored)
        self._shelf.defer(stored)
        stored.delivery_count += 1
        self._noted(stored)
        self.journal.changed(self.path, stored)

    def dead_letter(self, token: bytes, reason: str | None, description: str | None, now: float) -> None:
        """Move the message to the dead-letter queue."""
        self._bury(self._locks.holder(token, now), reason, description, now)

    def renew(self, token: bytes, now: float) -> float:
        """Lock the message for another lock duration; returns the new end."""
        until = now + self.description.lock_duration_s
        self._locks.renew(token, until, now)
        self._wake(until)
        return until

    def remember_unanswered(self, token: bytes) -> None:
        """A settlement was applied and its answer lost: settling the same lock once more is to succeed."""
        self._unanswered.append(token)

    def was_unanswered(self, token: bytes) -> bool:
        """Whether this lock was settled without the receiver knowing."""
        return token in self._unanswered
