"""A queue: how messages enter it, where they go from it, and what happens to them as time passes.

Every call takes `now` in unix seconds; nothing here reads a clock, waits or writes to a socket. Each change is made in
memory and then reported to the journal (`emulator/broker/journal.py`). The stored messages are in `contents.py`,
receiving and settling in `deliveries.py`, receivers that wait in `receivers.py`, dead-letter queues and forwarding in
`routing.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from emulator.broker import dead_letter
from emulator.broker.descriptions import QueueDescription
from emulator.broker.errors import (
    EntityDisabled,
    EntityNotFound,
    MessageNotFound,
    NotAllowed,
    QuotaExceeded,
)
from emulator.broker.journal import Journal
from emulator.broker.message import NEVER, Message, MessageState, StoredMessage
from emulator.broker.queues.contents import Contents
from emulator.broker.queues.deliveries import Deliveries
from emulator.broker.queues.duplicates import DuplicateHistory
from emulator.broker.queues.owner import Counters
from emulator.broker.queues.receivers import DeliveryHold, Receivers
from emulator.broker.queues.routing import Routing

MEGABYTE = 1024 * 1024


class Environment(Protocol):
    """What a queue needs of its namespace."""

    journal: Journal
    hold: DeliveryHold

    def wake(self, queue: Queue, due: float) -> None:
        """Call `queue.advance` at this time, or before."""

    def forward(self, target: str, stored: StoredMessage, now: float) -> None:
        """Put a copy of the message into another entity. Raises BrokerError, and then nothing was stored."""


class Queue:
    """A queue entity, the queue of a subscription or topic, or a dead-letter queue (which has a `parent`)."""

    def __init__(
        self, description: QueueDescription, environment: Environment, now: float, parent: Queue | None = None
    ) -> None:
        self.description = description
        self.parent = parent
        self.created_at = self.updated_at = self.accessed_at = now
        self.counters = Counters()
        self.history = DuplicateHistory()
        self.last_sequence_number = 0
        self.is_closed = False
        self.journal = environment.journal
        self._environment = environment
        self._routing = Routing(self, environment, self._sub_queue)
        wake = partial(environment.wake, self)
        self.contents = Contents(description.name, description.requires_session, self.journal, wake)
        self.deliveries = Deliveries(self, self.contents)
        self.receivers = Receivers(self, self.contents, self.deliveries, environment.hold)

    def __len__(self) -> int:
        """How many messages are stored, in every state; dead-letter queues not included."""
        return len(self.contents)

    @property
    def path(self) -> str:
        """The entity path, as it was spelled at creation."""
        return self.description.name

    @property
    def owner_path(self) -> str:
        """The path of the entity: its own, or for a dead-letter queue that of the entity it belongs to."""
        return self.path if self.parent is None else self.parent.path

    @property
    def rules_evaluated(self) -> int:
        """How many rules are evaluated for a message that is sent here: none, unless this is a topic's."""
        return 0

    # --- dead-letter queues ------------------------------------------------------------------------------------------

    @property
    def dead_letters(self) -> Queue:
        """The dead-letter queue, created on first use."""
        return self._routing.dead_letters

    @property
    def transfer_dead_letters(self) -> Queue:
        """The queue of messages that could not be forwarded, created on first use."""
        return self._routing.transfer_dead_letters

    def sub_queues(self) -> Iterator[Queue]:
        """The dead-letter queues that exist so far."""
        return iter(self._routing)

    @property
    def total_size_bytes(self) -> int:
        """The bytes that count against the quota: this queue's and its dead-letter queues'."""
        return self.contents.size_bytes + self._routing.size_bytes

    def _sub_queue(self, suffix: str) -> Queue:
        if self.parent is not None:
            raise EntityNotFound(f"'{self.path}' has no dead-letter queue of its own.")
        description = dead_letter.sub_queue_description(self.description, self.path + suffix)
        return Queue(description, self._environment, self.created_at, parent=self)

    # --- enqueuing ---------------------------------------------------------------------------------------------------

    def check(self, messages: Sequence[Message]) -> None:
        """Raise BrokerError unless all these messages can be stored together."""
        description = self.description
        if not description.status.accepts_sends:
            raise EntityDisabled
        if description.requires_session and any(message.session_id is None for message in messages):
            raise NotAllowed("The entity requires sessions: a message without a session id cannot be sent to it.")
        size = sum([message.size for message in messages])
        if self.total_size_bytes + size > description.max_size_in_megabytes * MEGABYTE:
            raise QuotaExceeded

    def enqueue(self, message: Message, now: float, *, source: StoredMessage | None = None) -> StoredMessage | None:
        """Store a message. Raises BrokerError."""
        self.check([message])
        return self.add(message, now, source=source)

    def add(
        self, message: Message, now: float, *, source: StoredMessage | None = None, number: int | None = None
    ) -> StoredMessage | None:
        """Store a message that was checked; under this reserved number if it becomes active later.

        None if nothing is stored here: a ping (which is only counted), a duplicate, or a message forwarded at once.
        `source` is the message in another entity of which this one is a copy.
        """
        self.accessed_at = now
        if message.is_ping:
            self.counters.pings_swallowed += 1
            return None
        if self._is_duplicate(message, now):
            self.counters.duplicates += 1
            return None
        return self._store(message, now, source, number)

    def schedule(self, message: Message, now: float) -> int:
        """Store a message that becomes active later; returns the sequence number with which it can be cancelled.

        A duplicate is not stored: the number is that of no message. Raises BrokerError.
        """
        self.check([message])
        self.accessed_at = now
        if self._is_duplicate(message, now):
            self.counters.duplicates += 1
            return self.reserve()  # no other message has it, which would be cancelled instead
        stored = self._store(message, now, None)
        return self.last_sequence_number if stored is None else stored.sequence_number

    def reserve(self) -> int:
        """A sequence number that no other message gets."""
        self.last_sequence_number += 1
        self.journal.sequence(self.path, self.last_sequence_number)
        return self.last_sequence_number

    def check_scheduled(self, numbers: Sequence[int]) -> None:
        """Raise MessageNotFound unless all messages with these numbers are scheduled."""
        for number in numbers:
            stored = self.contents.index.get(number)
            if stored is None or stored.state is not MessageState.SCHEDULED:
                raise MessageNotFound("One of the messages to cancel is not scheduled (any more).")

    def restore(self, stored: StoredMessage) -> None:
        """Put a message back from a store, with its own sequence number, unlocked, without reporting it.

        Messages are restored in sequence order.
        """
        self.last_sequence_number = max(self.last_sequence_number, stored.sequence_number)
        self.contents.insert(stored)

    def restore_session_state(self, session_id: str, state: bytes, updated_at: float) -> None:
        """Put the state of a session back from a store, without reporting it."""
        sessions = self.contents.sessions
        sessions.set_state(sessions.of(session_id), state, updated_at)

    def transfer(self, message: Message, target: str, now: float) -> None:
        """Send a message on to another entity."""
        self._routing.forward(StoredMessage(message, self.reserve(), now), target, now)

    def _is_duplicate(self, message: Message, now: float) -> bool:
        description = self.description
        if not description.requires_duplicate_detection or message.message_id is None:
            return False
        if self.history.contains(message.message_id, description.duplicate_detection_history_time_window_s, now):
            return True
        self.history.remember(message.message_id, now)
        self.journal.remembered(self.path, message.message_id, now)
        return False

    def _store(
        self, message: Message, now: float, source: StoredMessage | None, number: int | None = None
    ) -> StoredMessage | None:
        is_due = message.scheduled_at is None or message.scheduled_at <= now
        if is_due or number is None:
            number = self.last_sequence_number = self.last_sequence_number + 1
        stored = StoredMessage(message, number, now)
        if source is not None:
            stored.enqueue_sequence_number = source.enqueue_sequence_number or source.sequence_number
            stored.dead_letter_source, stored.hops = source.dead_letter_source, source.hops
            stored.delivery_count = source.delivery_count
        self.counters.enqueued += 1
        if is_due and self.description.forward_to is not None and self.parent is None:
            self._routing.forward(stored, self.description.forward_to, now)
            return None
        if is_due:
            stored.expires_at = self._expiry(message, now)
        else:
            stored.state = MessageState.SCHEDULED
        stored.scheduled_at = message.scheduled_at
        self.contents.insert(stored)
        self.journal.enqueued(self.path, stored)
        if is_due:
            self.receivers.dispatch(now, stored)
        return stored

    def _expiry(self, message: Message, now: float) -> float:
        own = NEVER if message.ttl_s is None else message.ttl_s
        lives = min(own, self.description.default_message_time_to_live_s)
        return NEVER if lives == NEVER else now + lives

    # --- OwningQueue: where messages go ------------------------------------------------------------------------------

    def make_available(self, stored: StoredMessage, now: float) -> None:
        """Return an unlocked message to its place in line, unless it is deferred, and deliver it if somebody waits."""
        if stored.state is MessageState.ACTIVE:
            self.contents.requeue(stored)
            self.receivers.dispatch(now, stored)

    def delivery_failed(self, stored: StoredMessage, now: float) -> None:
        """Count a delivery of an unlocked message; dead-letter it at the maximum delivery count, else requeue it.

        A dead-letter queue counts none.
        """
        stored.delivery_count += self.parent is None
        limit = self.description.max_delivery_count
        if stored.delivery_count >= limit and self.parent is None:
            self.dead_letter(stored, *dead_letter.too_many_deliveries(limit), now)
        else:
            self.journal.changed(self.path, stored)
            self.make_available(stored, now)

    def dead_letter(self, stored: StoredMessage, reason: str | None, description: str | None, now: float) -> None:
        """Move a message to the dead-letter queue, or to the entity dead letters are forwarded to."""
        message = dead_letter.with_reason(stored.message, reason, description)
        if self.parent is not None:
            # A dead-letter queue has none of its own: a message dead-lettered here stays, with the new reason.
            self.contents.unlock(stored)
            self.contents.index.replace(stored, message)
            self.journal.changed(self.path, stored)
            self.make_available(stored, now)
            return
        self.contents.remove(stored)
        self.counters.dead_lettered += 1
        self._routing.dead_letter(replace(stored, message=message, dead_letter_source=self.path, is_removed=False), now)

    def expire(self, stored: StoredMessage, now: float) -> None:
        """Remove a message whose time to live is over, or dead-letter it; it must not be in line."""
        self.counters.expired += 1
        if self.description.dead_lettering_on_message_expiration:
            self.dead_letter(stored, *dead_letter.EXPIRED, now)
        else:
            self.contents.remove(stored)

    def add_dead_letter(self, source: StoredMessage, now: float) -> None:
        """Store a copy of a dead-lettered message; no status or quota refuses it."""
        self._store(source.message, now, source)

    # --- time --------------------------------------------------------------------------------------------------------

    def next_due(self) -> float:
        """When `advance` has something to do next; infinity if never."""
        return self.contents.next_due()

    def advance(self, now: float) -> None:
        """Let locks lapse, messages expire and scheduled messages become active."""
        contents = self.contents
        self.receivers.lapse_sessions(now)
        for stored in list(contents.locks.take_lapsed(now)):
            self.delivery_failed(stored, now)
        # Processing one message may deliver, expire or forward others: each is looked up when its turn comes.
        for number in contents.index.take_activated(now):
            if (found := contents.index.get(number)) is not None:
                self._activate(found, now)
        for number in contents.index.take_expired(now):
            if (found := contents.index.get(number)) is not None:
                self._expired(found, now)
        self.receivers.dispatch(now)

    def _activate(self, stored: StoredMessage, now: float) -> None:
        """Enqueue a scheduled message now, with a new sequence number, as the service does."""
        self.contents.remove(stored)
        self.counters.enqueued -= 1
        self._store(stored.message, now, None)

    def _expired(self, stored: StoredMessage, now: float) -> None:
        if stored.lock_token is not None:
            # A locked message belongs to its receiver until the lock ends; it expires then.
            until = stored.locked_until if stored.locked_until != NEVER else now + self.description.lock_duration_s
            self.contents.index.expire_later(stored, until)
            return
        if stored.state is MessageState.ACTIVE:
            self.contents.ready(self.contents.session_of(stored)).forget()
        self.expire(stored, now)

    # --- administration ----------------------------------------------------------------------------------------------

    def update(self, description: QueueDescription, now: float) -> None:
        """Apply new properties; messages already stored keep their own times."""
        self.description = description
        self.updated_at = now
        for queue in self.sub_queues():
            queue.description = replace(queue.description, lock_duration_s=description.lock_duration_s)
        if not description.status.accepts_receives:
            self.receivers.dismiss(EntityDisabled())
        if description.forward_to is not None:
            self._forward_waiting(description.forward_to, now)
        self.receivers.dispatch(now)

    def _forward_waiting(self, target: str, now: float) -> None:
        while not self.description.requires_session and (stored := self.deliveries.take_ready(now)) is not None:
            self.contents.remove(stored)
            self._routing.forward(stored, target, now)

    def close(self) -> None:
        """Detach all receivers, as the entity was deleted."""
        self.is_closed = True
        self.receivers.dismiss(EntityNotFound(f"The messaging entity '{self.path}' was deleted."))

    def idle_due(self) -> float:
        """When the entity is deleted if nothing happens; infinity if never."""
        return self.accessed_at + self.description.auto_delete_on_idle_s if self.parent is None else NEVER

    def is_idle(self, now: float) -> bool:
        """Whether nothing has happened here for as long as AutoDeleteOnIdle allows."""
        return now >= self.idle_due() and not self.receivers.consumers()

    def runtime(self) -> dict[str, Any]:
        """Counts, size and times, for the administration. Deferred messages count as active, as in the service."""
        dead, transfer = self._routing.dead, self._routing.transfer
        return {
            "active": self.contents.active_count + self.contents.deferred_count,
            "scheduled": self.contents.scheduled_count,
            "dead_lettered": len(dead) if dead is not None else 0,
            "transfer": 0,
            "transfer_dead_lettered": len(transfer) if transfer is not None else 0,
            "size_bytes": self.total_size_bytes,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            "accessed_at": self.accessed_at,
        }
