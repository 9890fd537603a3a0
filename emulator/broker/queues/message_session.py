"""Message sessions of one queue: who holds each, which messages wait in it, its state.

A receiver locks a whole session; while it does, it alone receives the session's messages, in order. The session's lock
replaces the locks of its messages. When the receiver closes the session, messages delivered but not settled become
available without counting the delivery; when the lock lapses, each such delivery counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from emulator.broker.errors import SessionCannotBeLocked, SessionLockLost
from emulator.broker.message import StoredMessage
from emulator.broker.queues.ready_messages import Consumer, ReadyMessages
from emulator.broker.schedule import Schedule


class SessionHolder(Consumer, Protocol):
    """A receiver of one session."""

    def session_granted(self, session_id: str, until: float) -> None:
        """A session was locked for this receiver."""

    def session_lost(self) -> None:
        """The lock of its session has lapsed."""


@dataclass(slots=True, eq=False)
class MessageSession:
    """One session: its waiting messages, its holder, its state."""

    session_id: str
    ready: ReadyMessages = field(default_factory=ReadyMessages)
    holder: SessionHolder | None = None
    locked_until: float = 0.0
    state: bytes | None = None
    state_set_at: float = 0.0
    delivered: dict[bytes, StoredMessage] = field(default_factory=dict)
    is_waiting: bool = False


class Sessions:
    """The sessions of one queue. A session without messages, state and holder is removed."""

    def __init__(self) -> None:
        self._sessions: dict[str, MessageSession] = {}
        self._available: dict[str, MessageSession] = {}
        self._ends: Schedule[str] = Schedule()
        self.acceptors: dict[SessionHolder, None] = {}

    def of(self, session_id: str) -> MessageSession:
        """The session with this id, created if necessary."""
        session = self._sessions.get(session_id)
        if session is None:
            session = self._sessions[session_id] = MessageSession(session_id)
        return session

    def held(self, session_id: str, now: float) -> MessageSession:
        """The session, provided that somebody holds its lock. Raises SessionLockLost."""
        session = self._sessions.get(session_id)
        if session is None or session.holder is None or session.locked_until <= now:
            raise SessionLockLost
        return session

    def update(self, session: MessageSession) -> None:
        """Recompute whether the session is available to receivers, and remove it if it is empty."""
        if session.holder is None and session.ready.count > 0:
            self._available.setdefault(session.session_id, session)
        else:
            self._available.pop(session.session_id, None)
            if session.holder is None and session.state is None and not session.delivered:
                self._sessions.pop(session.session_id, None)

    def next_available(self) -> MessageSession | None:
        """The session that has waited longest for a receiver."""
        return next(iter(self._available.values()), None)

    def lock(self, session: MessageSession, holder: SessionHolder, until: float) -> None:
        """Lock the session for this receiver. Raises SessionCannotBeLocked."""
        if session.holder is not None:
            raise SessionCannotBeLocked(f"The session '{session.session_id}' is locked by another receiver.")
        session.holder = holder
        self.renew(session, until)
        self.update(session)

    def renew(self, session: MessageSession, until: float) -> None:
        """Move the end of the session's lock."""
        session.locked_until = until
        self._ends.set(session.session_id, until)

    def unlock(self, session: MessageSession) -> list[StoredMessage]:
        """Unlock the session; returns the messages that were delivered and not settled."""
        session.holder, session.locked_until, session.is_waiting = None, 0.0, False
        self._ends.discard(session.session_id)
        delivered, session.delivered = list(session.delivered.values()), {}
        return delivered

    def next_end(self) -> float:
        """When the next session lock lapses; infinity if none does."""
        return self._ends.next_due()

    def lapsed(self, now: float) -> Iterator[MessageSession]:
        """Each session whose lock has ended by `now`."""
        for session_id in list(self._ends.take_due(now)):
            yield self._sessions[session_id]

    def set_state(self, session: MessageSession, state: bytes | None, now: float) -> None:
        """Set the state of the session; None clears it."""
        session.state, session.state_set_at = state, now if state is not None else 0.0

    def in_use(self) -> list[str]:
        """The ids of sessions that have messages, delivered ones included, or a state."""
        return [
            key
            for key, session in self._sessions.items()
            if session.ready.count or session.delivered or session.state is not None
        ]

    def with_state_since(self, moment: float) -> list[str]:
        """The ids of sessions whose state was set after this time."""
        return [
            key
            for key, session in self._sessions.items()
            if session.state is not None and session.state_set_at > moment
        ]

    def states(self) -> Iterator[MessageSession]:
        """The sessions that have a state."""
        return iter([session for session in self._sessions.values() if session.state is not None])

    def holders(self) -> list[SessionHolder]:
        """All receivers, those waiting for a session included."""
        holding = [session.holder for session in self._sessions.values() if session.holder is not None]
        return [*holding, *self.acceptors]
