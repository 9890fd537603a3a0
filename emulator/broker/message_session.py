"""Message sessions of one queue: who holds which, what waits in it, its state.

A receiver locks a whole session; while it does, the session's messages go to nobody else, in their order. The
session's lock stands for the locks of its messages: they are held until it ends. Given up by its receiver, messages
that were out return as if they had never been delivered; lapsed, each such delivery counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from emulator.broker.errors import SessionCannotBeLocked, SessionLockLost
from emulator.broker.message import StoredMessage
from emulator.broker.ready import Consumer, Ready
from emulator.broker.schedule import Schedule


class SessionHolder(Consumer, Protocol):
    """A receiver of one session."""

    def session_granted(self, session_id: str, until: float) -> None:
        """The session it waited for is its own now."""

    def session_lost(self) -> None:
        """Its session's lock has lapsed."""


@dataclass(slots=True, eq=False)
class MessageSession:
    """One session: its waiting messages, its holder, its state."""

    session_id: str
    ready: Ready = field(default_factory=Ready)
    holder: SessionHolder | None = None
    locked_until: float = 0.0
    state: bytes | None = None
    state_set_at: float = 0.0
    out: dict[bytes, StoredMessage] = field(default_factory=dict)
    is_waiting: bool = False


class Sessions:
    """The sessions of one queue. Those that hold nothing are forgotten."""

    def __init__(self) -> None:
        self._sessions: dict[str, MessageSession] = {}
        self._available: dict[str, MessageSession] = {}
        self._ends: Schedule[str] = Schedule()
        self.acceptors: dict[SessionHolder, None] = {}

    def of(self, session_id: str) -> MessageSession:
        """The session of this id, made if need be."""
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

    def note(self, session: MessageSession) -> None:
        """Something about the session changed: it is available, or not any more, or not worth keeping."""
        if session.holder is None and session.ready.count > 0:
            self._available.setdefault(session.session_id, session)
        else:
            self._available.pop(session.session_id, None)
            if session.holder is None and session.state is None and not session.out:
                self._sessions.pop(session.session_id, None)

    def next_available(self) -> MessageSession | None:
        """The session that has waited longest for a receiver."""
        return next(iter(self._available.values()), None)

    def lock(self, session: MessageSession, holder: SessionHolder, until: float) -> None:
        """Give the session to this receiver. Raises SessionCannotBeLocked."""
        if session.holder is not None:
            raise SessionCannotBeLocked(f"The session '{session.session_id}' is locked by another receiver.")
        session.holder = holder
        self.renew(session, until)
        self.note(session)

    def renew(self, session: MessageSession, until: float) -> None:
        """Move the end of the session's lock."""
        session.locked_until = until
        self._ends.set(session.session_id, until)

    def unlock(self, session: MessageSession) -> list[StoredMessage]:
        """Take the session from its receiver; returns the messages that were out."""
        session.holder, session.locked_until, session.is_waiting = None, 0.0, False
        self._ends.discard(session.session_id)
        out, session.out = list(session.out.values()), {}
        return out

    def next_end(self) -> float:
        """When the next session lock lapses; infinity where none does."""
        return self._ends.next_due()

    def lapsed(self, now: float) -> Iterator[MessageSession]:
        """Each session whose lock has ended by `now`."""
        for session_id in list(self._ends.take_due(now)):
            yield self._sessions[session_id]

    def set_state(self, session: MessageSession, state: bytes | None, now: float) -> None:
        """Keep a state for the session; None clears it."""
        session.state, session.state_set_at = state, now if state is not None else 0.0

    def in_use(self) -> list[str]:
        """The ids of sessions in which messages wait or are out, or which have a state."""
        return [
            key
            for key, session in self._sessions.items()
            if session.ready.count or session.out or session.state is not None
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
