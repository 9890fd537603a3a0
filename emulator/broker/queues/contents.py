"""The messages of one queue, and where each of them waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from emulator.broker.journal import Journal
from emulator.broker.message import NEVER, MessageState, StoredMessage
from emulator.broker.queues.lock import Locks
from emulator.broker.queues.message_index import MessageIndex
from emulator.broker.queues.message_session import MessageSession, Sessions
from emulator.broker.queues.ready_messages import ReadyMessages


class Contents:
    """Messages by sequence number, their locks, and the lines in which active messages wait for receivers.

    It stores and moves messages; why they move is decided by the queue and its deliveries. Whether a queue requires
    sessions is fixed when it is created.
    """

    __slots__ = ("_ready", "index", "journal", "locks", "path", "requires_session", "sessions", "wake")

    def __init__(self, path: str, requires_session: bool, journal: Journal, wake: Callable[[float], None]) -> None:
        self.path = path
        self.requires_session = requires_session
        self.journal = journal
        self.index = MessageIndex()
        self.locks = Locks()
        self.sessions = Sessions()
        self._ready = ReadyMessages()
        self.wake = wake

    # --- reading -----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many messages are stored, in every state."""
        return len(self.index)

    @property
    def size_bytes(self) -> int:
        """The size of the stored messages."""
        return self.index.size_bytes

    @property
    def scheduled_count(self) -> int:
        """Messages that become active later."""
        return self.index.scheduled_count

    @property
    def deferred_count(self) -> int:
        """Deferred messages."""
        return self.index.deferred_count

    @property
    def active_count(self) -> int:
        """Active messages, locked ones included."""
        return len(self.index) - self.scheduled_count - self.deferred_count

    def peek(self, first: int, count: int, now: float, session_id: str | None = None) -> list[StoredMessage]:
        """Up to `count` messages from this sequence number on, in any state; nothing is locked."""
        return self.index.peek(first, count, now, session_id)

    def messages(self) -> Iterator[StoredMessage]:
        """All messages, in sequence order."""
        return self.index.messages()

    def ready(self, session: MessageSession | None = None) -> ReadyMessages:
        """The messages that wait for a receiver: those of a session, or those of a queue without sessions."""
        return self._ready if session is None else session.ready

    def session_of(self, stored: StoredMessage) -> MessageSession | None:
        """The session a message belongs to; None in a queue without sessions."""
        if self.requires_session and stored.message.session_id is not None:
            return self.sessions.of(stored.message.session_id)
        return None

    def next_due(self) -> float:
        """When a lock lapses, a message expires or becomes active, or a session is freed; infinity if never."""
        return min(self.locks.next_end(), self.index.next_due(), self.sessions.next_end())

    # --- changing ----------------------------------------------------------------------------------------------------

    def insert(self, stored: StoredMessage) -> None:
        """Add a message with the highest sequence number so far; an active one is appended to its line."""
        due = self.index.add(stored)
        if stored.state is MessageState.ACTIVE:
            if not self.requires_session or (session := self.session_of(stored)) is None:
                self._ready.append(stored)
            else:
                session.ready.append(stored)
                self.sessions.update(session)
        if due != NEVER:
            self.wake(due)

    def lock(self, stored: StoredMessage, until: float, session: MessageSession | None = None) -> None:
        """Lock a message until a time, or for as long as its session is locked."""
        if session is not None:
            session.delivered[self.locks.take(stored, NEVER)] = stored
        else:
            self.locks.take(stored, until)
            self.wake(until)

    def locked_until(self, stored: StoredMessage) -> float:
        """When the lock of a message ends: its own, or that of its session."""
        session = self.session_of(stored)
        return stored.locked_until if session is None else session.locked_until

    def renew_lock(self, token: bytes, until: float, now: float) -> None:
        """Extend the lock of a message. Raises MessageLockLost."""
        self.locks.renew(token, until, now)
        self.wake(until)

    def unlock(self, stored: StoredMessage) -> None:
        """End the lock of a message, if it has one."""
        token = stored.lock_token
        if token is not None:
            self.locks.release(stored)
            if self.requires_session and (session := self.session_of(stored)) is not None:
                session.delivered.pop(token, None)

    def requeue(self, stored: StoredMessage) -> None:
        """Return an unlocked active message to its old place in line."""
        session = self.session_of(stored)
        self.ready(session).give_back(stored)
        self._update(session)

    def defer(self, stored: StoredMessage) -> None:
        """Mark an unlocked message as deferred."""
        self.index.defer(stored)
        self._update(self.session_of(stored))

    def remove(self, stored: StoredMessage) -> None:
        """Remove a message, which must not be in line."""
        if stored.lock_token is not None:
            self.unlock(stored)
        self.index.remove(stored)
        if self.requires_session:
            self._update(self.session_of(stored))
        self.journal.removed(self.path, stored.sequence_number)

    def _update(self, session: MessageSession | None) -> None:
        if session is not None:
            self.sessions.update(session)
