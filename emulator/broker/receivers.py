"""Who receives from a queue: receivers that wait for messages, and holders of message sessions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque

from emulator.broker.descriptions import QueueDescription
from emulator.broker.errors import BrokerError, EntityNotFound
from emulator.broker.journal import Journal
from emulator.broker.message import StoredMessage
from emulator.broker.message_session import MessageSession, SessionHolder, Sessions
from emulator.broker.ready import Consumer, Ready


class Receivers(ABC):
    """The side of a queue that receivers see. What is stored, and how it is locked, is the queue's."""

    description: QueueDescription
    accessed_at: float

    def __init__(self) -> None:
        self.sessions = Sessions()
        self.is_closed = False
        self._ready = Ready()
        self._waiting: deque[Consumer] = deque()
        self._pumping = False

    # --- what the queue does for it --------------------------------------------------------------------------------

    @property
    @abstractmethod
    def path(self) -> str: ...

    @property
    @abstractmethod
    def journal(self) -> Journal: ...

    @abstractmethod
    def receive(self, now: float, session: MessageSession | None = None) -> StoredMessage | None:
        """Lock and return the next message, or None."""

    @abstractmethod
    def receive_and_delete(self, now: float, session: MessageSession | None = None) -> StoredMessage | None:
        """Remove and return the next message, or None."""

    @abstractmethod
    def _wake(self, due: float) -> None:
        """See that time is looked at then."""

    @abstractmethod
    def _come_back(self, stored: StoredMessage, now: float, *, counts: bool) -> None:
        """A message is nobody's any more; `counts` says whether its delivery counts."""

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
                self._come_back(stored, now, counts=False)
        self.sessions.note(session)
        self._serve_acceptors(now)

    def renew_session(self, session_id: str, now: float) -> float:
        """Lock the session for another lock duration; returns the new end. Raises SessionLockLost."""
        until = now + self.description.lock_duration_s
        self.sessions.renew(self.sessions.held(session_id, now), until)
        self._wake(until)
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
        self._wake(until)
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
            self._come_back(stored, now, counts=True)
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

    def close(self) -> None:
        """The entity was deleted: tell those who receive from it."""
        self.is_closed = True
        self._dismiss(EntityNotFound(f"The messaging entity '{self.path}' was deleted."))

    def _dismiss(self, reason: BrokerError) -> None:
        consumers = self.consumers()
        self._waiting.clear()
        for consumer in consumers:
            consumer.entity_gone(reason.condition, str(reason))
