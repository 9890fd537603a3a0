"""What a queue holds, and what it lends to receivers: its messages, their locks, and where each waits."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING

from emulator.broker.descriptions import QueueDescription
from emulator.broker.journal import Journal
from emulator.broker.lock import Locks
from emulator.broker.message import NEVER, MessageState, StoredMessage
from emulator.broker.ready import Ready
from emulator.broker.receivers import Receivers
from emulator.broker.shelf import Shelf
from emulator.broker.surroundings import Counters, Surroundings

if TYPE_CHECKING:
    from emulator.broker.queue import Queue


class Contents(Receivers):
    """The inside of a queue. What comes in and goes out, and why, is decided in the classes built on it."""

    def __init__(
        self, description: QueueDescription, surroundings: Surroundings, now: float, parent: Queue | None = None
    ) -> None:
        super().__init__()
        self.description = description
        self.surroundings = surroundings
        self.parent = parent
        self.created_at = self.updated_at = self.accessed_at = now
        self.counters = Counters()
        self.last_sequence_number = 0
        self._locks = Locks()
        self._shelf = Shelf()
        self._dead_letters: Queue | None = None
        self._transfer_dead_letters: Queue | None = None

    # --- looking -----------------------------------------------------------------------------------------------------

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

    def sub_queues(self) -> Iterator[Queue]:
        """The dead-letter queues that were made so far."""
        for queue in (self._dead_letters, self._transfer_dead_letters):
            if queue is not None:
                yield queue

    def __len__(self) -> int:
        """How many messages are stored, in every state."""
        return len(self._shelf)

    @property
    def size_bytes(self) -> int:
        """The bytes of the messages stored here, dead-letter queues left out."""
        return self._shelf.size_bytes

    @property
    def scheduled_count(self) -> int:
        """Messages that become active later."""
        return self._shelf.scheduled_count

    @property
    def rules_looked_at(self) -> int:
        """How many rules decide where a message goes that is sent here: none, unless this is a topic's."""
        return 0

    @property
    def deferred_count(self) -> int:
        """Messages set aside by a receiver."""
        return self._shelf.deferred_count

    @property
    def active_count(self) -> int:
        """Active messages, locked ones included."""
        return len(self._shelf) - self.scheduled_count - self.deferred_count

    @property
    def total_size_bytes(self) -> int:
        """The bytes that count against the quota: this queue's and its dead-letter queues'."""
        size = self.size_bytes
        for queue in (self._dead_letters, self._transfer_dead_letters):
            if queue is not None:
                size += queue.size_bytes
        return size

    def peek(self, first: int, count: int, now: float, session_id: str | None = None) -> list[StoredMessage]:
        """Up to `count` messages from this sequence number on, whatever their state; nothing is locked."""
        return self._shelf.peek(first, count, now, session_id)

    def messages(self) -> Iterator[StoredMessage]:
        """Everything stored, in sequence order."""
        return self._shelf.messages()

    # --- keeping -----------------------------------------------------------------------------------------------------

    def restore(self, stored: StoredMessage) -> None:
        """Put a message back that a store kept, with its own sequence number, unlocked; in sequence order.

        Announces nothing.
        """
        self.last_sequence_number = max(self.last_sequence_number, stored.sequence_number)
        self._insert(stored)

    def _insert(self, stored: StoredMessage) -> None:
        due = self._shelf.add(stored)
        if stored.state is MessageState.ACTIVE:
            self._line(stored).append(stored)
            self._noted(stored)
        if due != NEVER:
            self._wake(due)

    def _line(self, stored: StoredMessage) -> Ready:
        """Where a message waits: in its session, or in the one line of a queue without sessions."""
        if self.description.requires_session and stored.message.session_id is not None:
            return self.sessions.of(stored.message.session_id).ready
        return self._ready

    def _noted(self, stored: StoredMessage) -> None:
        if self.description.requires_session and stored.message.session_id is not None:
            self.sessions.note(self.sessions.of(stored.message.session_id))

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
        self._shelf.remove(stored)
        self._noted(stored)
        self.journal.removed(self.path, stored.sequence_number)

    def _give_back(self, stored: StoredMessage, now: float) -> None:
        if stored.state is MessageState.ACTIVE:
            self._line(stored).give_back(stored)
            self._noted(stored)
            self._pump(now, stored)

    def _come_back(self, stored: StoredMessage, now: float, *, counts: bool) -> None:
        self._locks.release(stored)
        if counts:
            self._failed_delivery(stored, now)
        else:
            self._give_back(stored, now)

    @abstractmethod
    def _failed_delivery(self, stored: StoredMessage, now: float) -> None:
        """A delivery came to nothing: the message waits again, or has been delivered too often."""
