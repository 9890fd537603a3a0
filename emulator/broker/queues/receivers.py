"""Who receives from a queue: receivers that wait for messages, and holders of message sessions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from emulator.broker.errors import BrokerError
from emulator.broker.message import StoredMessage
from emulator.broker.queues.contents import Contents
from emulator.broker.queues.deliveries import Deliveries
from emulator.broker.queues.message_session import MessageSession, SessionHolder
from emulator.broker.queues.owner import OwningQueue
from emulator.broker.queues.ready_messages import Consumer


class DeliveryHold:
    """Holds back what the queues of a namespace deliver, until a change of several messages is complete."""

    def __init__(self) -> None:
        self.held: list[Callable[[], None]] | None = None

    def __enter__(self) -> None:
        self.held = []

    def __exit__(self, *_: object) -> None:
        held, self.held = self.held or [], None
        for deliver in held:
            deliver()


class Receivers:
    """Delivers messages to receivers that wait, and locks sessions for receivers that accept them."""

    def __init__(self, queue: OwningQueue, contents: Contents, deliveries: Deliveries, hold: DeliveryHold) -> None:
        self._queue = queue
        self._contents = contents
        self._sessions = contents.sessions
        self._deliveries = deliveries
        self._hold = hold
        self._waiting: deque[Consumer] = deque()
        self._is_dispatching = False

    # --- sessions ----------------------------------------------------------------------------------------------------

    def accept_session(self, session_id: str, holder: SessionHolder, now: float) -> None:
        """Lock this session for a receiver. Raises SessionCannotBeLocked."""
        self._grant(self._sessions.of(session_id), holder, now)

    def accept_next_session(self, holder: SessionHolder, now: float) -> None:
        """Lock a session that has messages, now or when there is one; `holder.session_granted` is then called."""
        self._sessions.acceptors[holder] = None
        self._serve_acceptors(now)

    def stop_accepting(self, holder: SessionHolder) -> bool:
        """Stop waiting for a session; whether it was still waiting."""
        return holder in self._sessions.acceptors and self._sessions.acceptors.pop(holder) is None

    def close_session(self, session_id: str, holder: SessionHolder, now: float) -> None:
        """Unlock the session of a receiver; its delivered messages become available without counting the delivery."""
        session = self._sessions.of(session_id)
        if session.holder is holder:
            for stored in self._sessions.unlock(session):
                self._contents.locks.release(stored)
                self._queue.make_available(stored, now)
        self._sessions.update(session)
        self._serve_acceptors(now)

    def renew_session(self, session_id: str, now: float) -> float:
        """Lock the session for another lock duration; returns the new end. Raises SessionLockLost."""
        until = now + self._queue.description.lock_duration_s
        self._sessions.renew(self._sessions.held(session_id, now), until)
        self._contents.wake(until)
        return until

    def set_session_state(self, session_id: str, state: bytes | None, now: float) -> None:
        """Store a state for a locked session. Raises SessionLockLost."""
        self._sessions.set_state(self._sessions.held(session_id, now), state, now)
        self._contents.journal.session_state(self._contents.path, session_id, state, now)

    def lapse_sessions(self, now: float) -> None:
        """Unlock the sessions whose lock has ended; each delivery of their messages counts."""
        for session in self._sessions.lapsed(now):
            self._lapse(session, now)

    def _lapse(self, session: MessageSession, now: float) -> None:
        holder = session.holder
        for stored in self._sessions.unlock(session):
            self._contents.locks.release(stored)
            self._queue.delivery_failed(stored, now)
        self._sessions.update(session)
        if holder is not None:
            holder.session_lost()
        self._serve_acceptors(now)

    def _grant(self, session: MessageSession, holder: SessionHolder, now: float) -> None:
        until = now + self._queue.description.lock_duration_s
        self._sessions.lock(session, holder, until)
        self._contents.wake(until)
        self._queue.accessed_at = now
        holder.session_granted(session.session_id, until)

    def _serve_acceptors(self, now: float) -> None:
        acceptors = self._sessions.acceptors
        while acceptors and (session := self._sessions.next_available()) is not None:
            holder = next(iter(acceptors))
            del acceptors[holder]
            self._grant(session, holder, now)

    # --- consumers ---------------------------------------------------------------------------------------------------

    def wait(self, consumer: Consumer, now: float) -> None:
        """Deliver to this consumer while it accepts, now and when messages arrive."""
        if consumer not in self._waiting:
            self._waiting.append(consumer)
        self.dispatch(now)

    def leave(self, consumer: Consumer) -> None:
        """Deliver nothing more to this consumer."""
        if consumer in self._waiting:
            self._waiting.remove(consumer)

    def wait_in_session(self, session_id: str, now: float) -> None:
        """Deliver the session's messages to its holder while it accepts."""
        session = self._sessions.of(session_id)
        session.is_waiting = True
        self._dispatch_session(session, now)

    def dispatch(self, now: float, stored: StoredMessage | None = None) -> None:
        """Deliver what can be delivered; `stored` is the message that became available, if there is one."""
        if not self._queue.description.status.accepts_receives:
            return
        if self._hold.held is not None:
            self._hold.held.append(partial(self.dispatch, now, stored))
            return
        if self._contents.requires_session:
            session = None if stored is None or stored.is_removed else self._contents.session_of(stored)
            if session is not None:
                self._dispatch_session(session, now)
            self._serve_acceptors(now)
        elif self._waiting and not self._is_dispatching:
            self._is_dispatching = True
            try:
                self._dispatch_waiting(now)
            finally:
                self._is_dispatching = False

    def _dispatch_waiting(self, now: float) -> None:
        """One message to each waiting consumer in turn, until messages or consumers run out."""
        ready = self._contents.ready()
        while self._waiting and ready.count:
            consumer = self._waiting.popleft()
            if consumer.accepts(now):
                take = self._deliveries.receive_and_delete if consumer.deletes else self._deliveries.receive
                stored = take(now)
                if stored is not None:
                    consumer.deliver(stored, now)
                self._waiting.append(consumer)

    def _dispatch_session(self, session: MessageSession, now: float) -> None:
        holder = session.holder
        while session.is_waiting and holder is not None and session.ready.count:
            if not holder.accepts(now):
                session.is_waiting = False
                return
            take = self._deliveries.receive_and_delete if holder.deletes else self._deliveries.receive
            stored = take(now, session)
            if stored is not None:
                holder.deliver(stored, now)

    def consumers(self) -> list[Consumer]:
        """Everyone who receives here or waits to."""
        return [*self._waiting, *self._sessions.holders()]

    def dismiss(self, reason: BrokerError) -> None:
        """Tell every consumer that the entity gives no more messages."""
        consumers = self.consumers()
        self._waiting.clear()
        for consumer in consumers:
            consumer.entity_gone(reason.condition, str(reason))
