"""A queue: what comes in, where it goes from here, and what time does to it.

Every call takes `now` in unix seconds; nothing here reads a clock, waits or writes to a socket. Each change is made in
memory, then announced to the journal (`emulator/broker/journal.py`). What it holds is in `contents.py`, what receivers
do with it in `deliveries.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from emulator.broker import dead_letter
from emulator.broker.deliveries import Deliveries
from emulator.broker.descriptions import QueueDescription
from emulator.broker.duplicates import DuplicateHistory
from emulator.broker.errors import (
    BrokerError,
    EntityDisabled,
    EntityNotFound,
    MessageNotFound,
    NotAllowed,
    QuotaExceeded,
)
from emulator.broker.message import NEVER, Message, MessageState, StoredMessage
from emulator.broker.surroundings import Surroundings

MEGABYTE = 1024 * 1024


class Queue(Deliveries):
    """One queue, or the queue a subscription owns, or a dead-letter queue."""

    def __init__(
        self, description: QueueDescription, surroundings: Surroundings, now: float, parent: Queue | None = None
    ) -> None:
        super().__init__(description, surroundings, now, parent)
        self.history = DuplicateHistory()

    # --- its dead letters --------------------------------------------------------------------------------------------

    @property
    def dead_letters(self) -> Queue:
        """The dead-letter queue, made when it is first asked for."""
        if self._dead_letters is None:
            self._dead_letters = self._sub_queue(dead_letter.DEAD_LETTER_SUFFIX)
        return self._dead_letters

    @property
    def transfer_dead_letters(self) -> Queue:
        """Where messages go that could not be forwarded."""
        if self._transfer_dead_letters is None:
            self._transfer_dead_letters = self._sub_queue(dead_letter.TRANSFER_SUFFIX)
        return self._transfer_dead_letters

    def _sub_queue(self, suffix: str) -> Queue:
        if self.parent is not None:
            raise EntityNotFound(f"'{self.path}' has no dead-letter queue of its own.")
        description = dead_letter.sub_queue_description(self.description, self.path + suffix)
        return Queue(description, self.surroundings, self.created_at, parent=self)

    # --- putting in --------------------------------------------------------------------------------------------------

    def check(self, messages: Sequence[Message]) -> None:
        """Raise BrokerError unless all these messages can be stored together."""
        if not self.description.status.accepts_sends:
            raise EntityDisabled
        if self.description.requires_session and any(message.session_id is None for message in messages):
            raise NotAllowed("The entity requires sessions: a message without a session id cannot be sent to it.")
        size = sum([message.size for message in messages])
        if self.total_size_bytes + size > self.description.max_size_in_megabytes * MEGABYTE:
            raise QuotaExceeded

    def enqueue(self, message: Message, now: float, *, source: StoredMessage | None = None) -> StoredMessage | None:
        """Store a message. Raises BrokerError.

        None where nothing is kept here: a ping (counted only), a duplicate, a message forwarded at once.
        `source` is the message in another entity this one is a copy of.
        """
        self.check([message])
        self.accessed_at = now
        if message.is_ping:
            self.counters.pings_swallowed += 1
            return None
        if self._is_duplicate(message, now):
            self.counters.duplicates += 1
            return None
        return self._store(message, now, source)

    def schedule(self, message: Message, now: float) -> int:
        """Store a message that becomes active at its time; returns the sequence number to cancel it by."""
        self.check([message])
        self.accessed_at = now
        if self._is_duplicate(message, now):
            self.counters.duplicates += 1
            return self.last_sequence_number
        stored = self._store(message, now, None)
        return self.last_sequence_number if stored is None else stored.sequence_number

    def cancel_scheduled(self, numbers: Sequence[int]) -> None:
        """Remove scheduled messages, all or none. Raises MessageNotFound."""
        found = [self._shelf.get(number) for number in numbers]
        if not all(stored is not None and stored.state is MessageState.SCHEDULED for stored in found):
            raise MessageNotFound("One of the messages to cancel is not scheduled (any more).")
        for stored in found:
            if stored is not None and not stored.is_removed:
                self._remove(stored)

    def _is_duplicate(self, message: Message, now: float) -> bool:
        description = self.description
        if not description.requires_duplicate_detection or message.message_id is None:
            return False
        if self.history.contains(message.message_id, description.duplicate_detection_history_time_window_s, now):
            return True
        self.history.remember(message.message_id, now)
        self.journal.remembered(self.path, message.message_id, now)
        return False

    def _store(self, message: Message, now: float, source: StoredMessage | None) -> StoredMessage | None:
        is_due = message.scheduled_at is None or message.scheduled_at <= now
        self.last_sequence_number += 1
        stored = StoredMessage(message, self.last_sequence_number, now)
        if source is not None:
            stored.enqueue_sequence_number = source.enqueue_sequence_number or source.sequence_number
            stored.dead_letter_source, stored.hops = source.dead_letter_source, source.hops
            stored.delivery_count = source.delivery_count
        self.counters.enqueued += 1
        if is_due and self.description.forward_to is not None and self.parent is None:
            self._forward(stored, now)
            return None
        if is_due:
            stored.expires_at = self._expiry(message, now)
        else:
            stored.state = MessageState.SCHEDULED
        stored.scheduled_at = message.scheduled_at
        self._insert(stored)
        self.journal.enqueued(self.path, stored)
        if is_due:
            self._pump(now, stored)
        return stored

    def _expiry(self, message: Message, now: float) -> float:
        own = NEVER if message.ttl_s is None else message.ttl_s
        lives = min(own, self.description.default_message_time_to_live_s)
        return NEVER if lives == NEVER else now + lives

    # --- to other places ---------------------------------------------------------------------------------------------

    def _bury(self, stored: StoredMessage, reason: str | None, description: str | None, now: float) -> None:
        """Out of this queue, into its dead-letter queue or where that forwards to."""
        if self.parent is not None:
            # A dead-letter queue has no other below it: what is dead-lettered there stays where it is.
            self._unlock(stored)
            stored.message = dead_letter.with_reason(stored.message, reason, description)
            self.journal.changed(self.path, stored)
            self._give_back(stored, now)
            return
        self._remove(stored)
        self.counters.dead_lettered += 1
        message = dead_letter.with_reason(stored.message, reason, description)
        copy = replace(stored, message=message, dead_letter_source=self.path, is_removed=False)
        target = self.description.forward_dead_lettered_messages_to
        if target is not None:
            try:
                self.surroundings.forward(target, copy, now)
                self.counters.forwarded += 1
                return
            except BrokerError:
                pass  # it is not lost: it stays in the dead-letter queue, as if nothing were forwarded
        self.dead_letters.take_in(copy, now)

    def _forward(self, stored: StoredMessage, now: float) -> None:
        """On to the entity this one forwards to; what cannot go there is kept in the transfer dead-letter queue."""
        target = self.description.forward_to
        self.journal.sequence(self.path, self.last_sequence_number)
        try:
            if target is not None:
                self.surroundings.forward(target, stored, now)
            self.counters.forwarded += 1
        except BrokerError as error:
            message = dead_letter.with_reason(stored.message, error.reason, str(error))
            copy = replace(stored, message=message, dead_letter_source=self.path)
            self.counters.dead_lettered += 1
            self.transfer_dead_letters.take_in(copy, now)

    def take_in(self, source: StoredMessage, now: float) -> None:
        """Store a dead-lettered message, of which `source` is a copy: no status or quota refuses it."""
        self._store(source.message, now, source)

    def _expire(self, stored: StoredMessage, now: float) -> None:
        """The time to live is over; the message is not in line any more."""
        self.counters.expired += 1
        if self.description.dead_lettering_on_message_expiration:
            self._bury(stored, *dead_letter.EXPIRED, now)
        else:
            self._remove(stored)

    def _failed_delivery(self, stored: StoredMessage, now: float) -> None:
        stored.delivery_count += 1
        limit = self.description.max_delivery_count
        if stored.delivery_count >= limit and self.parent is None:
            self._bury(stored, *dead_letter.too_many_deliveries(limit), now)
        else:
            self.journal.changed(self.path, stored)
            self._give_back(stored, now)

    # --- time --------------------------------------------------------------------------------------------------------

    def next_due(self) -> float:
        """When `advance` has something to do next; infinity where nothing is due."""
        return min(self._locks.next_end(), self._shelf.next_due(), self.sessions.next_end())

    def advance(self, now: float) -> None:
        """Let locks lapse, messages expire and scheduled ones become active."""
        for session in self.sessions.lapsed(now):
            self._session_lapsed(session, now)
        for stored in list(self._locks.take_lapsed(now)):
            self._failed_delivery(stored, now)
        # What is done for one message may deliver, expire or forward others: each is looked up when its turn comes.
        for number in self._shelf.take_activated(now):
            if (found := self._shelf.get(number)) is not None:
                self._activate(found, now)
        for number in self._shelf.take_expired(now):
            if (found := self._shelf.get(number)) is not None:
                self._expired(found, now)
        self._pump(now)

    def _activate(self, stored: StoredMessage, now: float) -> None:
        """The scheduled time has come: the message is enqueued now, with a new sequence number, as the service does."""
        self._remove(stored)
        self.counters.enqueued -= 1
        self._store(stored.message, now, None)

    def _expired(self, stored: StoredMessage, now: float) -> None:
        if stored.lock_token is not None:
            # A locked message is its receiver's until the lock ends; it expires then.
            until = stored.locked_until if stored.locked_until != NEVER else now + self.description.lock_duration_s
            self._shelf.expire_later(stored, until)
            return
        if stored.state is MessageState.ACTIVE:
            self._line(stored).forget()
        self._expire(stored, now)

    def _wake(self, due: float) -> None:
        self.surroundings.wake(self, due)

    # --- administration ----------------------------------------------------------------------------------------------

    def update(self, description: QueueDescription, now: float) -> None:
        """Take new properties; messages already here keep their own times."""
        self.description = description
        self.updated_at = now
        for queue in self.sub_queues():
            queue.description = replace(queue.description, lock_duration_s=description.lock_duration_s)
        if not description.status.accepts_receives:
            self._dismiss(EntityDisabled())
        if description.forward_to is not None:
            self._forward_waiting(now)
        self._pump(now)

    def _forward_waiting(self, now: float) -> None:
        while not self.description.requires_session and (stored := self._next(self._ready, now)) is not None:
            self._remove(stored)
            self._forward(stored, now)

    def idle_due(self) -> float:
        """When the entity goes by itself if nothing happens; infinity where it stays."""
        return self.accessed_at + self.description.auto_delete_on_idle_s if self.parent is None else NEVER

    def is_idle(self, now: float) -> bool:
        """Whether nothing has happened here for as long as AutoDeleteOnIdle allows."""
        return now >= self.idle_due() and not self.consumers()

    def runtime(self) -> dict[str, Any]:
        """Counts, size and times, for the administration. Deferred messages count as active, as in the service."""
        dead, transfer = self._dead_letters, self._transfer_dead_letters
        return {
            "active": self.active_count + self.deferred_count,
            "scheduled": self.scheduled_count,
            "dead_lettered": len(dead) if dead is not None else 0,
            "transfer": 0,
            "transfer_dead_lettered": len(transfer) if transfer is not None else 0,
            "size_bytes": self.total_size_bytes,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            "accessed_at": self.accessed_at,
        }
