"""What receivers do with the messages of a queue: receive them, locked or for good, and settle them."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from emulator.broker.errors import BrokerError, MessageNotFound
from emulator.broker.message import MessageState, StoredMessage
from emulator.broker.queues.contents import Contents
from emulator.broker.queues.message_session import MessageSession
from emulator.broker.queues.owner import OwningQueue
from emulator.broker.queues.settlement import Outcome, Settlement, modified

MAX_UNANSWERED = 10_000


class Deliveries:
    """Receiving and settling. What happens to a message that is given up is decided by the queue."""

    def __init__(self, queue: OwningQueue, contents: Contents) -> None:
        self._queue = queue
        self._contents = contents
        self._unanswered: deque[bytes] = deque(maxlen=MAX_UNANSWERED)

    # --- receiving ---------------------------------------------------------------------------------------------------

    def receive(self, now: float, session: MessageSession | None = None) -> StoredMessage | None:
        """Lock and return the next message, or None."""
        stored = self.take_ready(now, session)
        if stored is not None:
            self._contents.lock(stored, now + self._queue.description.lock_duration_s, session)
            self._count_delivery(now)
        return stored

    def receive_and_delete(self, now: float, session: MessageSession | None = None) -> StoredMessage | None:
        """Remove and return the next message, or None."""
        stored = self.take_ready(now, session)
        if stored is not None:
            self._contents.remove(stored)
            self._count_delivery(now)
        return stored

    def receive_deferred(
        self, numbers: Sequence[int], now: float, *, deletes: bool, session_id: str | None = None
    ) -> list[StoredMessage]:
        """Deferred messages by their numbers, locked, or removed where `deletes`. Raises MessageNotFound."""
        session = self._contents.sessions.held(session_id, now) if session_id is not None else None
        found = [self._deferred(number, session_id) for number in numbers]
        for stored in found:
            if deletes:
                self._contents.remove(stored)
            else:
                self._contents.lock(stored, now + self._queue.description.lock_duration_s, session)
            self._count_delivery(now)
        return found

    def _deferred(self, number: int, session_id: str | None) -> StoredMessage:
        stored = self._contents.index.get(number)
        if stored is None or stored.state is not MessageState.DEFERRED or stored.lock_token is not None:
            raise MessageNotFound(f"No deferred message has the sequence number {number}.")
        if session_id is not None and stored.message.session_id != session_id:
            raise MessageNotFound(f"No deferred message of the session has the sequence number {number}.")
        return stored

    def take_ready(self, now: float, session: MessageSession | None = None) -> StoredMessage | None:
        """Take the next message that has not expired out of its line, neither locked nor removed; None if none."""
        ready = self._contents.ready(session)
        while (stored := ready.take()) is not None:
            if stored.expires_at > now:
                return stored
            self._queue.expire(stored, now)
        return None

    def _count_delivery(self, now: float) -> None:
        self._queue.counters.delivered += 1
        self._queue.accessed_at = now

    # --- settling ----------------------------------------------------------------------------------------------------

    def check(self, token: bytes, settlement: Settlement, now: float) -> None:
        """Raise BrokerError unless the message locked with this token can be settled so."""
        stored = self._contents.locks.holder(token, now)
        if settlement.properties:
            modified(stored.message, settlement.properties)

    def settle(self, token: bytes, settlement: Settlement, now: float) -> None:
        """Settle the message locked with this token. Raises BrokerError."""
        match settlement.outcome:
            case Outcome.COMPLETED:
                self.complete(token, now)
            case Outcome.RELEASED:
                self.release(token, now)
            case Outcome.ABANDONED:
                self.abandon(token, now, settlement.properties)
            case Outcome.DEFERRED:
                self.defer(token, now, settlement.properties)
            case Outcome.DEAD_LETTERED:
                self.dead_letter(token, settlement.reason, settlement.description, now, settlement.properties)

    def complete(self, token: bytes, now: float) -> None:
        """Remove the message locked with this token. Raises MessageLockLost, as do the other methods below."""
        self._contents.remove(self._contents.locks.holder(token, now))
        self._queue.counters.completed += 1

    def abandon(self, token: bytes, now: float, properties: Mapping[Any, Any] | None = None) -> None:
        """Make the message available again and count the delivery; `properties` are set as application properties."""
        self._modify(token, properties, now)
        self._queue.delivery_failed(self._unlocked(token, now), now)

    def release(self, token: bytes, now: float) -> None:
        """Make the message available again without counting the delivery. A lost lock is ignored."""
        try:
            stored = self._unlocked(token, now)
        except BrokerError:
            return
        self._queue.make_available(stored, now)

    def defer(self, token: bytes, now: float, properties: Mapping[Any, Any] | None = None) -> None:
        """Defer the message: it can then be received by its sequence number only. The delivery counts."""
        self._modify(token, properties, now)
        stored = self._unlocked(token, now)
        stored.delivery_count += 1
        self._contents.defer(stored)
        self._contents.journal.changed(self._contents.path, stored)

    def dead_letter(
        self,
        token: bytes,
        reason: str | None,
        description: str | None,
        now: float,
        properties: Mapping[Any, Any] | None = None,
    ) -> None:
        """Move the message to the dead-letter queue; `properties` are set as application properties."""
        self._modify(token, properties, now)
        self._queue.dead_letter(self._contents.locks.holder(token, now), reason, description, now)

    def renew(self, token: bytes, now: float) -> float:
        """Lock the message for another lock duration; returns the new end."""
        until = now + self._queue.description.lock_duration_s
        self._contents.renew_lock(token, until, now)
        return until

    def _modify(self, token: bytes, properties: Mapping[Any, Any] | None, now: float) -> None:
        stored = self._contents.locks.holder(token, now)
        if properties:
            self._contents.index.replace(stored, modified(stored.message, properties))

    def _unlocked(self, token: bytes, now: float) -> StoredMessage:
        stored = self._contents.locks.holder(token, now)
        self._contents.unlock(stored)
        return stored

    # --- settlements whose answer was lost ---------------------------------------------------------------------------

    def remember_unanswered(self, token: bytes) -> None:
        """Record that a settlement was applied but not answered, so that repeating it succeeds."""
        self._unanswered.append(token)

    def was_unanswered(self, token: bytes) -> bool:
        """Whether a settlement of this lock was applied but not answered."""
        return token in self._unanswered
