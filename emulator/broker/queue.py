"""A queue: what a receiver gets next, what is locked, what is due, what is counted.

Every call takes `now` in unix seconds; nothing here reads a clock, waits or writes to a socket. Each change is made in
memory, then announced to the journal (`emulator/broker/journal.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol
from uuid import UUID

from emulator.broker import dead_letter
from emulator.broker.descriptions import QueueDescription
from emulator.broker.errors import BrokerError, EntityDisabled, QuotaExceeded
from emulator.broker.journal import Journal
from emulator.broker.lock import Locks
from emulator.broker.message import NEVER, Message, MessageState, StoredMessage
from emulator.broker.ready import Ready
from emulator.broker.schedule import Schedule

MAX_HOPS = 4


class Surroundings(Protocol):
    """What a queue needs of its namespace."""

    journal: Journal

    def wake(self, queue: Queue, due: float) -> None:
        """Call `queue.advance` at this time, or before."""

    def forward(self, target: str, stored: StoredMessage, now: float) -> None:
        """Put a copy of the message into another entity. Raises BrokerError, and then the message is still the caller's."""


class Consumer(Protocol):
    """A receiver that waits for messages."""

    def accepts(self, now: float) -> bool:
        """Whether it takes one more message now."""

    def deliver(self, stored: StoredMessage, now: float) -> None:
        """Take this message: already locked, or already removed where `deletes`."""

    def entity_deleted(self) -> None:
        """The queue is gone."""

    @property
    def deletes(self) -> bool:
        """Whether messages leave the queue when they are delivered (receive and delete)."""


@dataclass(slots=True)
class Counters:
    """What happened in this queue since it was created or the process started."""

    enqueued: int = 0
    delivered: int = 0
    completed: int = 0
    dead_lettered: int = 0
    expired: int = 0
    pings_swallowed: int = 0

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


class Queue:
    """One queue, or the queue a subscription owns, or a dead-letter queue."""

    def __init__(self, description: QueueDescription, surroundings: Surroundings, now: float) -> None:
        self.description = description
        self.surroundings = surroundings
        self.created_at = self.updated_at = self.accessed_at = now
        self.counters = Counters()
        self.size_bytes = 0
        self.last_sequence_number = 0
        self._messages: dict[int, StoredMessage] = {}
        self._ready = Ready()
        self._locks = Locks()
        self._expiries: Schedule[int] = Schedule()
        self._activations: Schedule[int] = Schedule()
        self._waiting: deque[Consumer] = deque()
        self._dead_letters: Queue | None = None
        self._transfer_dead_letters: Queue | None = None
        self._pumping = False
        self.is_closed = False

    # --- looking ---------------------------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """The entity path, as people write it."""
        return self.description.name

    @property
    def journal(self) -> Journal:
        return self.surroundings.journal

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
        path = self.path + suffix
        return Queue(dead_letter.dead_letter_description(self.description, path), self.surroundings, self.created_at)

    def sub_queues(self) -> Iterator[Queue]:
        """The dead-letter queues that were made so far."""
        for queue in (self._dead_letters, self._transfer_dead_letters):
            if queue is not None:
                yield queue

    def counts(self) -> dict[MessageState, int]:
        """How many messages are in each state. Locked ones are active."""
        counts = dict.fromkeys(MessageState, 0)
        for stored in self._messages.values():
            counts[stored.state] += 1
        return counts

    @property
    def active_count(self) -> int:
        """Active messages, locked ones included."""
        return self._ready.count + len(self._locks)

    def messages(self) -> Iterator[StoredMessage]:
        """Everything stored, in sequence order."""
        return iter([self._messages[number] for number in sorted(self._messages)])

    def peek(self, first: int, count: int, now: float) -> list[StoredMessage]:
        """Up to `count` messages from this sequence number on, whatever their state; nothing is locked."""
        numbers = sorted(number for number in self._messages if number >= first)
        found = [self._messages[number] for number in numbers]
        return [stored for stored in found if stored.expires_at > now][:count]

    # --- putting in ------------------------------------------------------------------------------------------------

    def enqueue(self, message: Message, now: float, *, source: StoredMessage | None = None) -> StoredMessage | None:
        """Store a message. None for a ping, which is counted and never stored. Raises BrokerError.

        `source` is the message in another entity this one is a copy of (forwarding, dead-lettering).
        """
        self.check([message])
        if message.is_ping:
            self.counters.pings_swallowed += 1
            return None
        self.accessed_at = now
        return self._store(message, now, source)

    def check(self, messages: list[Message]) -> None:
        """Raise BrokerError unless all these messages can be stored together."""
        if not self.description.status.accepts_sends:
            raise EntityDisabled
        size = sum(message.size for message in messages if not message.is_ping)
        if self.size_bytes + size > self.description.max_size_in_megabytes * 1024 * 1024:
            raise QuotaExceeded

    def _store(self, message: Message, now: float, source: StoredMessage | None = None) -> StoredMessage:
        self.last_sequence_number += 1
        stored = StoredMessage(message, self.last_sequence_number, now, expires_at=self._expiry(message, now))
        if source is not None:
            stored.enqueue_sequence_number = source.enqueue_sequence_number or source.sequence_number
            stored.dead_letter_source, stored.hops = source.dead_letter_source, source.hops
        self.counters.enqueued += 1
        self._insert(stored)
        self.journal.enqueued(self.path, stored)
        self._pump(now)
        return stored

    def restore(self, stored: StoredMessage) -> None:
        """Put a message back that a store kept, with its own sequence number, unlocked; announces nothing."""
        self.last_sequence_number = max(self.last_sequence_number, stored.sequence_number)
        self._insert(stored)

    def _insert(self, stored: StoredMessage) -> None:
        number = stored.sequence_number
        self._messages[number] = stored
        self.size_bytes += stored.message.size
        if stored.state is MessageState.ACTIVE:
            self._ready.append(stored)
        if stored.expires_at != NEVER:
            self._expiries.set(number, stored.expires_at)
            self.surroundings.wake(self, stored.expires_at)

    def _expiry(self, message: Message, now: float) -> float:
        own = NEVER if message.ttl_s is None else message.ttl_s
        return now + min(own, self.description.default_message_time_to_live_s)

    # --- taking out ------------------------------------------------------------------------------------------------

    def receive(self, now: float) -> StoredMessage | None:
        """Lock and return the next message, or None."""
        stored = self._next(now)
        if stored is not None:
            until = now + self.description.lock_duration_s
            self._locks.take(stored, until)
            self.surroundings.wake(self, until)
            self._delivered(now)
        return stored

    def receive_and_delete(self, now: float) -> StoredMessage | None:
        """Remove and return the next message, or None."""
        stored = self._next(now)
        if stored is not None:
            self._remove(stored)
            self._delivered(now)
        return stored

    def _delivered(self, now: float) -> None:
        self.counters.delivered += 1
        self.accessed_at = now

    def _next(self, now: float) -> StoredMessage | None:
        while (stored := self._ready.take(self._is_waiting)) is not None:
            if stored.expires_at > now:
                return stored
            self._expire(stored, now)
        return None

    def _is_waiting(self, stored: StoredMessage) -> bool:
        return (
            stored.lock_token is None
            and stored.state is MessageState.ACTIVE
            and self._messages.get(stored.sequence_number) is stored
        )

    def _remove(self, stored: StoredMessage) -> None:
        """Take a message that is no longer among the ready ones out of the queue for good."""
        self._locks.release(stored)
        del self._messages[stored.sequence_number]
        self.size_bytes -= stored.message.size
        self._expiries.discard(stored.sequence_number)
        self.journal.removed(self.path, stored.sequence_number)

    # --- settling --------------------------------------------------------------------------------------------------

    def complete(self, token: UUID, now: float) -> None:
        """Remove the message locked with this token. Raises MessageLockLost, as do the others below."""
        self._remove(self._locks.holder(token, now))
        self.counters.completed += 1

    def abandon(self, token: UUID, now: float) -> None:
        """Give the message back; this delivery counts."""
        stored = self._locks.holder(token, now)
        self._locks.release(stored)
        self._failed_delivery(stored, now)
        self._pump(now)

    def release(self, token: UUID, now: float) -> None:
        """Give the message back as if it had never been delivered. A lock that is gone is no error."""
        try:
            stored = self._locks.holder(token, now)
        except BrokerError:
            return
        self._locks.release(stored)
        self._give_back(stored)
        self._pump(now)

    def dead_letter(self, token: UUID, reason: str | None, description: str | None, now: float) -> None:
        """Move the message to the dead-letter queue."""
        self._bury(self._locks.holder(token, now), reason, description, now)

    def defer(self, token: UUID, now: float) -> None:
        """Set the message aside: from now on it is received by its sequence number only."""
        stored = self._locks.holder(token, now)
        self._locks.release(stored)
        stored.state = MessageState.DEFERRED
        self.journal.changed(self.path, stored)

    def renew(self, token: UUID, now: float) -> float:
        """Lock the message for another lock duration; returns the new end."""
        until = now + self.description.lock_duration_s
        self._locks.renew(token, until, now)
        self.surroundings.wake(self, until)
        return until

    def _give_back(self, stored: StoredMessage) -> None:
        if stored.state is MessageState.ACTIVE:
            self._ready.give_back(stored)

    def _failed_delivery(self, stored: StoredMessage, now: float) -> None:
        stored.delivery_count += 1
        limit = self.description.max_delivery_count
        if stored.delivery_count >= limit:
            self._bury(stored, *dead_letter.too_many_deliveries(limit), now)
        else:
            self.journal.changed(self.path, stored)
            self._give_back(stored)

    def _bury(self, stored: StoredMessage, reason: str | None, description: str | None, now: float) -> None:
        """Out of this queue, into its dead-letter queue."""
        self._remove(stored)
        self.counters.dead_lettered += 1
        message = dead_letter.with_reason(stored.message, reason, description)
        source = replace(stored, dead_letter_source=stored.dead_letter_source or self.path)
        self.dead_letters.take_in(message, source, now)

    def take_in(self, message: Message, source: StoredMessage, now: float) -> None:
        """Store a dead-lettered message: no status and no quota refuses it."""
        self._store(message, now, source)

    def _expire(self, stored: StoredMessage, now: float) -> None:
        """The time to live is over; the message is not among the ready ones any more."""
        self.counters.expired += 1
        if self.description.dead_lettering_on_message_expiration:
            self._bury(stored, *dead_letter.EXPIRED, now)
        else:
            self._remove(stored)

    # --- time ------------------------------------------------------------------------------------------------------

    def next_due(self) -> float:
        """When `advance` has something to do next; infinity where nothing is due."""
        return min(self._locks.next_end(), self._expiries.next_due(), self._activations.next_due())

    def advance(self, now: float) -> None:
        """Let locks lapse, messages expire and scheduled ones become active."""
        for stored in list(self._locks.take_lapsed(now)):
            self._failed_delivery(stored, now)
        for number in list(self._expiries.take_due(now)):
            stored = self._messages[number]
            if stored.lock_token is not None:
                # A locked message is its receiver's until the lock ends: it expires then.
                self._expiries.set(number, stored.locked_until)
            else:
                if stored.state is MessageState.ACTIVE:
                    self._ready.forget()
                self._expire(stored, now)
        self._pump(now)

    # --- consumers -------------------------------------------------------------------------------------------------

    def wait(self, consumer: Consumer, now: float) -> None:
        """Deliver to this consumer while it accepts, now and when messages come."""
        if consumer not in self._waiting:
            self._waiting.append(consumer)
        self._pump(now)

    def close(self) -> None:
        """The entity was deleted: tell those who still receive from it."""
        self.is_closed = True
        for consumer in list(self._waiting):
            consumer.entity_deleted()
        self._waiting.clear()

    def leave(self, consumer: Consumer) -> None:
        """Deliver nothing more to this consumer."""
        if consumer in self._waiting:
            self._waiting.remove(consumer)

    def _pump(self, now: float) -> None:
        """One message to each waiting consumer in turn, until messages or consumers run out."""
        if self._pumping or not self._waiting or not self.description.status.accepts_receives:
            return
        self._pumping = True
        try:
            while self._waiting and self._ready.count:
                consumer = self._waiting.popleft()
                if not consumer.accepts(now):
                    continue
                stored = self.receive_and_delete(now) if consumer.deletes else self.receive(now)
                if stored is not None:
                    consumer.deliver(stored, now)
                self._waiting.append(consumer)
        finally:
            self._pumping = False

    # --- administration --------------------------------------------------------------------------------------------

    def update(self, description: QueueDescription, now: float) -> None:
        """Take new properties; messages already here keep their own times."""
        self.description = description
        self.updated_at = now
        for sub_queue in self.sub_queues():
            sub_queue.description = replace(sub_queue.description, lock_duration_s=description.lock_duration_s)
        self._pump(now)

    def runtime(self) -> dict[str, Any]:
        """Counts, size and times, for the administration."""
        counts = self.counts()
        dead, transfer = self._dead_letters, self._transfer_dead_letters
        return {
            "active": counts[MessageState.ACTIVE] + counts[MessageState.DEFERRED],
            "scheduled": counts[MessageState.SCHEDULED],
            "dead_lettered": len(dead._messages) if dead else 0,
            "transfer_dead_lettered": len(transfer._messages) if transfer else 0,
            "size_bytes": self.size_bytes + sum(queue.size_bytes for queue in self.sub_queues()),
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            "accessed_at": self.accessed_at,
        }
