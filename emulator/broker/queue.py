"""A queue: what a receiver gets next, what is locked, what is due, what is counted.

Every call takes `now` in unix seconds; nothing here reads a clock, waits or writes to a socket. Each change is made in
memory, then announced to the journal (`emulator/broker/journal.py`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from emulator.broker import dead_letter
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
from emulator.broker.journal import Journal
from emulator.broker.lock import Locks
from emulator.broker.message import NEVER, Message, MessageState, StoredMessage
from emulator.broker.message_session import MessageSession, SessionHolder, Sessions
from emulator.broker.ready import Consumer, Ready
from emulator.broker.schedule import Schedule

MEGABYTE = 1024 * 1024


class Surroundings(Protocol):
    """What a queue needs of its namespace."""

    journal: Journal

    def wake(self, queue: Queue, due: float) -> None:
        """Call `queue.advance` at this time, or before."""

    def forward(self, target: str, stored: StoredMessage, now: float) -> None:
        """Put a copy of the message into another entity. Raises BrokerError, and then nothing was stored."""


@dataclass(slots=True)
class Counters:
    """What happened in this queue since it was created or the process started."""

    enqueued: int = 0
    delivered: int = 0
    completed: int = 0
    dead_lettered: int = 0
    expired: int = 0
    pings_swallowed: int = 0
    duplicates: int = 0
    forwarded: int = 0

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


class Queue:
    """One queue, or the queue a subscription owns, or a dead-letter queue."""

    def __init__(
        self, description: QueueDescription, surroundings: Surroundings, now: float, parent: Queue | None = None
    ) -> None:
        self.description = description
        self.surroundings = surroundings
        self.parent = parent
        self.created_at = self.updated_at = self.accessed_at = now
        self.counters = Counters()
        self.size_bytes = 0
        self.last_sequence_number = 0
        self.sessions = Sessions()
        self.history = DuplicateHistory()
        self.is_closed = False
        self._messages: dict[int, StoredMessage] = {}
        self._numbers: list[int] = []
        self._deferred_count = 0
        self._ready = Ready()
        self._locks = Locks()
        self._expiries: Schedule[int] = Schedule()
        self._activations: Schedule[int] = Schedule()
        self._waiting: deque[Consumer] = deque()
        self._dead_letters: Queue | None = None
        self._transfer_dead_letters: Queue | None = None
        self._pumping = False
        self._unanswered: deque[bytes] = deque(maxlen=10_000)

    # --- looking ---------------------------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """The entity path, as people write it."""
        return self.description.name

    @property
    def owner_path(self) -> str:
        """The path of the entity this queue belongs to: its own, or that of the entity whose dead letters it holds."""
        return self.path if self.parent is None else self.parent.path

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
        if self.parent is not None:
            raise EntityNotFound(f"'{self.path}' has no dead-letter queue of its own.")
        description = dead_letter.sub_queue_description(self.description, self.path + suffix)
        return Queue(description, self.surroundings, self.created_at, parent=self)

    def sub_queues(self) -> Iterator[Queue]:
        """The dead-letter queues that were made so far."""
        for queue in (self._dead_letters, self._transfer_dead_letters):
            if queue is not None:
                yield queue

    def __len__(self) -> int:
        """How many messages are stored, in every state."""
        return len(self._messages)

    @property
    def scheduled_count(self) -> int:
        """Messages that become active later."""
        return len(self._activations)

    @property
    def deferred_count(self) -> int:
        """Messages set aside by a receiver."""
        return self._deferred_count

    @property
    def active_count(self) -> int:
        """Active messages, locked ones included."""
        return len(self._messages) - self.scheduled_count - self._deferred_count

    @property
    def total_size_bytes(self) -> int:
        """The bytes that count against the quota: this queue's and its dead-letter queues'."""
        size = self.size_bytes
        for queue in (self._dead_letters, self._transfer_dead_letters):
            if queue is not None:
                size += queue.size_bytes
        return size

    def messages(self) -> Iterator[StoredMessage]:
        """Everything stored, in sequence order."""
        return iter(list(self._messages.values()))

    def peek(self, first: int, count: int, now: float, session_id: str | None = None) -> list[StoredMessage]:
        """Up to `count` messages from this sequence number on, whatever their state; nothing is locked."""
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

    # --- putting in ------------------------------------------------------------------------------------------------

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
        found = [self._messages.get(number) for number in numbers]
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

    def restore(self, stored: StoredMessage) -> None:
        """Put a message back that a store kept, with its own sequence number, unlocked; in sequence order.

        Announces nothing.
        """
        self.last_sequence_number = max(self.last_sequence_number, stored.sequence_number)
        self._insert(stored)

    def _insert(self, stored: StoredMessage) -> None:
        number = stored.sequence_number
        self._messages[number] = stored
        self._remember_number(number)
        self.size_bytes += stored.message.size
        if stored.state is MessageState.ACTIVE:
            self._line(stored).append(stored)
            self._noted(stored)
        elif stored.state is MessageState.DEFERRED:
            self._deferred_count += 1
        elif stored.scheduled_at is not None:
            self._activations.set(number, stored.scheduled_at)
            self.surroundings.wake(self, stored.scheduled_at)
        if stored.expires_at != NEVER:
            self._expiries.set(number, stored.expires_at)
            self.surroundings.wake(self, stored.expires_at)

    def _remember_number(self, number: int) -> None:
        """Keep the numbers sorted for peeking; those of removed messages are swept once they are the majority."""
        self._numbers.append(number)
        if len(self._numbers) > 2 * len(self._messages) + 64:
            self._numbers = list(self._messages)

    def _expiry(self, message: Message, now: float) -> float:
        own = NEVER if message.ttl_s is None else message.ttl_s
        lives = min(own, self.description.default_message_time_to_live_s)
        return NEVER if lives == NEVER else now + lives

    def _line(self, stored: StoredMessage) -> Ready:
        """Where a message waits: in its session, or in the one line of a queue without sessions."""
        if self.description.requires_session and stored.message.session_id is not None:
            return self.sessions.of(stored.message.session_id).ready
        return self._ready

    def _noted(self, stored: StoredMessage) -> None:
        if self.description.requires_session and stored.message.session_id is not None:
            self.sessions.note(self.sessions.of(stored.message.session_id))

    # --- taking out ------------------------------------------------------------------------------------------------

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
            stored = self._messages.get(number)
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
            self.surroundings.wake(self, until)

    def _delivered(self, now: float) -> None:
        self.counters.delivered += 1
        self.accessed_at = now

    def _next(self, line: Ready, now: float) -> StoredMessage | None:
        while (stored := line.take()) is not None:
            if stored.expires_at > now:
                return stored
            self._expire(stored, now)
        return None

    def _unlock(self, stored: StoredMessage) -> None:
        token = stored.lock_token
        if token is None:
            return
        self._locks.release(stored)
        if self.description.requires_session and stored.message.session_id is not None:
            self.sessions.of(stored.message.session_id).out.pop(token, None)

    def _remove(self, stored: StoredMessage) -> None:
        """Take a message that is not in line any more out of the queue for good."""
        self._unlock(stored)
        number = stored.sequence_number
        del self._messages[number]
        stored.is_removed = True
        self.size_bytes -= stored.message.size
        if stored.state is MessageState.DEFERRED:
            self._deferred_count -= 1
        elif stored.state is MessageState.SCHEDULED:
            self._activations.discard(number)
        self._expiries.discard(number)
        self._noted(stored)
        self.journal.removed(self.path, number)

    def remember_unanswered(self, token: bytes) -> None:
        """A settlement was applied and its answer lost: settling the same lock once more is to succeed."""
        self._unanswered.append(token)

    def was_unanswered(self, token: bytes) -> bool:
        """Whether this lock was settled without the receiver knowing."""
        return token in self._unanswered

    # --- settling --------------------------------------------------------------------------------------------------

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
        if stored.state is not MessageState.DEFERRED:
            stored.state = MessageState.DEFERRED
            self._deferred_count += 1
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
        self.surroundings.wake(self, until)
        return until

    def _give_back(self, stored: StoredMessage, now: float) -> None:
        if stored.state is MessageState.ACTIVE:
            self._line(stored).give_back(stored)
            self._noted(stored)
            self._pump(now, stored)

    def _failed_delivery(self, stored: StoredMessage, now: float) -> None:
        stored.delivery_count += 1
        limit = self.description.max_delivery_count
        if stored.delivery_count >= limit and self.parent is None:
            self._bury(stored, *dead_letter.too_many_deliveries(limit), now)
        else:
            self.journal.changed(self.path, stored)
            self._give_back(stored, now)

    # --- to other places -------------------------------------------------------------------------------------------

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

    # --- time ------------------------------------------------------------------------------------------------------

    def next_due(self) -> float:
        """When `advance` has something to do next; infinity where nothing is due."""
        return min(
            self._locks.next_end(),
            self._expiries.next_due(),
            self._activations.next_due(),
            self.sessions.next_end(),
        )

    def advance(self, now: float) -> None:
        """Let locks lapse, messages expire and scheduled ones become active."""
        for session in self.sessions.lapsed(now):
            self._session_lapsed(session, now)
        for stored in list(self._locks.take_lapsed(now)):
            self._failed_delivery(stored, now)
        # What is done for one message may deliver, expire or forward others: each is looked up when its turn comes.
        for number in list(self._activations.take_due(now)):
            if number in self._messages:
                self._activate(self._messages[number], now)
        for number in list(self._expiries.take_due(now)):
            if number in self._messages:
                self._expired(self._messages[number], now)
        self._pump(now)

    def _activate(self, stored: StoredMessage, now: float) -> None:
        """The scheduled time has come: the message is enqueued now, with a new sequence number, as the service does."""
        self._activations.set(stored.sequence_number, now)
        self._remove(stored)
        self.counters.enqueued -= 1
        self._store(stored.message, now, None)

    def _expired(self, stored: StoredMessage, now: float) -> None:
        if stored.lock_token is not None:
            # A locked message is its receiver's until the lock ends; it expires then.
            until = stored.locked_until if stored.locked_until != NEVER else now + self.description.lock_duration_s
            self._expiries.set(stored.sequence_number, until)
            return
        if stored.state is MessageState.ACTIVE:
            self._line(stored).forget()
        self._expire(stored, now)

    # --- sessions --------------------------------------------------------------------------------------------------

    def accept_session(self, session_id: str, holder: SessionHolder, now: float) -> None:
        """Lock this session for a receiver. Raises SessionCannotBeLocked."""
        self._grant(self.sessions.of(session_id), holder, now)

    def accept_next_session(self, holder: SessionHolder, now: float) -> None:
        """Lock a session that has messages, at once or when there is one; `session_granted` tells."""
        self.sessions.acceptors[holder] = None
        self._serve_acceptors(now)

    def stop_accepting(self, holder: SessionHolder) -> bool:
        """Wait for a session no longer; whether it was still waiting."""
        return holder in self.sessions.acceptors and self.sessions.acceptors.pop(holder) is None

    def close_session(self, session_id: str, holder: SessionHolder, now: float) -> None:
        """The receiver gives its session up; what it had out returns without counting."""
        session = self.sessions.of(session_id)
        if session.holder is holder:
            for stored in self.sessions.unlock(session):
                self._locks.release(stored)
                self._give_back(stored, now)
        self.sessions.note(session)
        self._serve_acceptors(now)

    def renew_session(self, session_id: str, now: float) -> float:
        """Lock the session for another lock duration; returns the new end. Raises SessionLockLost."""
        until = now + self.description.lock_duration_s
        self.sessions.renew(self.sessions.held(session_id, now), until)
        self.surroundings.wake(self, until)
        return until

    def set_session_state(self, session_id: str, state: bytes | None, now: float) -> None:
        """Keep a state for a session that is locked. Raises SessionLockLost."""
        self.sessions.set_state(self.sessions.held(session_id, now), state, now)
        self.journal.session_state(self.path, session_id, state, now)

    def restore_session_state(self, session_id: str, state: bytes, updated_at: float) -> None:
        """Take a state that a store kept; announces nothing."""
        self.sessions.set_state(self.sessions.of(session_id), state, updated_at)

    def _grant(self, session: MessageSession, holder: SessionHolder, now: float) -> None:
        until = now + self.description.lock_duration_s
        self.sessions.lock(session, holder, until)
        self.surroundings.wake(self, until)
        self.accessed_at = now
        holder.session_granted(session.session_id, until)

    def _serve_acceptors(self, now: float) -> None:
        acceptors = self.sessions.acceptors
        while acceptors and (session := self.sessions.next_available()) is not None:
            holder = next(iter(acceptors))
            del acceptors[holder]
            self._grant(session, holder, now)

    def _session_lapsed(self, session: MessageSession, now: float) -> None:
        holder = session.holder
        for stored in self.sessions.unlock(session):
            self._locks.release(stored)
            self._failed_delivery(stored, now)
        self.sessions.note(session)
        if holder is not None:
            holder.session_lost()
        self._serve_acceptors(now)

    # --- consumers -------------------------------------------------------------------------------------------------

    def wait(self, consumer: Consumer, now: float) -> None:
        """Deliver to this consumer while it accepts, now and when messages come."""
        if consumer not in self._waiting:
            self._waiting.append(consumer)
        self._pump(now)

    def leave(self, consumer: Consumer) -> None:
        """Deliver nothing more to this consumer."""
        if consumer in self._waiting:
            self._waiting.remove(consumer)

    def wait_in_session(self, session_id: str, now: float) -> None:
        """Deliver the session's messages to its holder while it accepts."""
        session = self.sessions.of(session_id)
        session.is_waiting = True
        self._pump_session(session, now)

    def _pump(self, now: float, stored: StoredMessage | None = None) -> None:
        """Deliver what can be delivered; `stored` is the message that came, where there is one."""
        if not self.description.status.accepts_receives:
            return
        if self.description.requires_session:
            if stored is not None and stored.message.session_id is not None:
                self._pump_session(self.sessions.of(stored.message.session_id), now)
            self._serve_acceptors(now)
        elif self._waiting and not self._pumping:
            self._pumping = True
            try:
                self._pump_waiting(now)
            finally:
                self._pumping = False

    def _pump_waiting(self, now: float) -> None:
        """One message to each waiting consumer in turn, until messages or consumers run out."""
        while self._waiting and self._ready.count:
            consumer = self._waiting.popleft()
            if consumer.accepts(now):
                stored = self.receive_and_delete(now) if consumer.deletes else self.receive(now)
                if stored is not None:
                    consumer.deliver(stored, now)
                self._waiting.append(consumer)

    def _pump_session(self, session: MessageSession, now: float) -> None:
        holder = session.holder
        while session.is_waiting and holder is not None and session.ready.count:
            if not holder.accepts(now):
                session.is_waiting = False
                return
            take = self.receive_and_delete if holder.deletes else self.receive
            stored = take(now, session)
            if stored is not None:
                holder.deliver(stored, now)

    def consumers(self) -> list[Consumer]:
        """Everyone who receives here or waits to."""
        return [*self._waiting, *self.sessions.holders()]

    # --- administration --------------------------------------------------------------------------------------------

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

    def close(self) -> None:
        """The entity was deleted: tell those who receive from it."""
        self.is_closed = True
        self._dismiss(EntityNotFound(f"The messaging entity '{self.path}' was deleted."))

    def _dismiss(self, reason: BrokerError) -> None:
        consumers = self.consumers()
        self._waiting.clear()
        for consumer in consumers:
            consumer.entity_gone(reason.condition, str(reason))

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
            "active": self.active_count + self._deferred_count,
            "scheduled": self.scheduled_count,
            "dead_lettered": len(dead) if dead is not None else 0,
            "transfer": 0,
            "transfer_dead_lettered": len(transfer) if transfer is not None else 0,
            "size_bytes": self.total_size_bytes,
            "created_at": self.created_at,
            "updated_at": self.updated_at,
            "accessed_at": self.accessed_at,
        }
