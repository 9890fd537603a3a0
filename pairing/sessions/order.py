"""Sending with the order of sessions preserved, around the plain rules. No I/O, no clock.

While a session has messages in the backlog, its new messages go to the same queue, from all processes and even if the
entity is healthy again. So that nothing overtakes, the decision is stored and confirmed before a message goes to the
backlog (docs/design/session-order.md).
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from pairing.drive import Operation
from pairing.errors import TOO_LITTLE_TIME, BacklogUnavailableError, Fault
from pairing.health.flows import (
    DONE,
    LONGEST_ATTEMPT_S,
    Attempts,
    Backlog,
    Entity,
    Redirected,
    send_to_backlog,
    send_to_primary,
)
from pairing.sessions.rulings import Ruling, session_key

R = TypeVar("R")
_TOO_SHORT_S = 0.001

Part = tuple[str | None, Any]
"""A session, None for messages without one, and what is sent of it."""


class OrderedAttempts(Attempts, Protocol):
    """How a sender attempts to deliver messages of sessions, and waits and asks meanwhile."""

    def ask(self, question: Callable[[], R]) -> Operation[R]: ...

    def pause(self, seconds: float) -> Operation[None]: ...


class Order(Protocol):
    """The process's own knowledge of barriers; only ``consult`` and ``move`` wait for Redis, for at most 2 s."""

    is_away: bool

    def consult(self, key: str, candidate: str | None, token: str, within_s: float) -> Ruling | None: ...

    def move(self, key: str, token: str, queue: str, *, is_gone: bool) -> bool: ...

    def is_free(self, entity: str) -> bool: ...

    def token(self) -> str: ...

    def left(self, key: str, token: str, *, stored: bool) -> None: ...

    def remember(self, key: str, queue: str) -> None: ...

    def remembered(self, key: str) -> str | None: ...

    def at_risk(self, entity: str, reason: str) -> None: ...


@dataclass(slots=True)
class SessionSend:
    """One send call with messages of one or more sessions."""

    attempts: OrderedAttempts
    entity: Entity
    order: Order
    backlog_of: Callable[[str | None], Backlog]
    now: Callable[[], float]
    deadline: float
    wait_when_busy: bool
    is_gone: Callable[[BaseException], bool]
    began_at: float
    """When the timeout began."""

    def run(self, work: Any, parts: list[Part]) -> Operation[str | None]:
        """Send all parts of the work in order; if the entity certainly has no barrier, in one send to the primary.

        Returns the backlog queue of the last part, None for the primary. If a part fails, the accepted parts remain
        accepted, and a note on the error says so.
        """
        if not self.order.is_free(self.entity.path):
            return (yield from self._each(parts, self._part))
        redirected = yield from self._primary(work, self.began_at)
        if redirected is None:
            return None
        return (yield from self._each(parts, lambda part: self._redirect(part, redirected)))

    def _primary(self, work: Any, began_at: float) -> Operation[Redirected | None]:
        return send_to_primary(
            self.attempts,
            work,
            self.entity,
            self.now,
            timeout_s=self.deadline - began_at,
            wait_when_busy=self.wait_when_busy,
            began_at=began_at,
        )

    def _each(self, parts: list[Part], send: Callable[[Part], Operation[str | None]]) -> Operation[str | None]:
        queue, accepted = None, list[str]()
        for part in parts:
            try:
                queue = yield from send(part)
            except Exception as error:
                if accepted:
                    error.add_note(f"messages of these sessions were accepted before: {', '.join(accepted)}")
                raise
            accepted.append(part[0] or "(none)")
        return queue

    def _part(self, part: Part) -> Operation[str | None]:
        """Send one session, if it may have a barrier."""
        session, work = part
        if session is not None:
            key, token = session_key(self.entity.path, session), self.order.token()
            ruling = yield from self._ruling(key, token)
            if ruling is None and (queue := self.order.remembered(key)) is not None:
                return (yield from self._alone(part, queue, Redirected(self.deadline)))
            if ruling is not None and ruling.queue:
                return (yield from self._behind(part, key, token, ruling, None))
        redirected = yield from self._primary(work, self.now())
        return None if redirected is None else (yield from self._redirect(part, redirected))

    def _consult(self, key: str, candidate: str | None, token: str) -> Operation[Ruling | None]:
        if self.order.is_away:
            return None
        within_s = self.deadline - self.now()
        return (yield from self.attempts.ask(partial(self.order.consult, key, candidate, token, within_s)))

    def _to_backlog(self, work: Any, backlog: Backlog, redirected: Redirected) -> Operation[str | None]:
        return send_to_backlog(self.attempts, work, self.entity.path, backlog, self.now, redirected)

    def _ruling(self, key: str, token: str) -> Operation[Ruling | None]:
        """The answer of Redis, once sends of the session are not held back."""
        while True:
            ruling = yield from self._consult(key, None, token)
            if ruling is None or ruling.queue or not ruling.wait_s:
                return ruling
            yield from self.attempts.pause(ruling.wait_s)

    def _redirect(self, part: Part, redirected: Redirected) -> Operation[str | None]:
        """The entity is failed over: messages of the session go to the backlog from now on."""
        session, work = part
        if session is None:
            return (yield from self._to_backlog(work, self.backlog_of(None), redirected))
        if redirected.is_unknown:
            self._at_risk(session, "a message was sent again although the first attempt may have been stored")
        key, token = session_key(self.entity.path, session), self.order.token()
        while (candidate := self._candidate(session, ())) is not None:
            left = redirected.deadline - self.now()
            ruling = yield from self._consult(key, candidate, token)
            if ruling is None:
                return (yield from self._alone(part, self.order.remembered(key), redirected))
            if ruling.queue:
                return (yield from self._behind(part, key, token, ruling, redirected.cause))
            if left <= ruling.wait_s + _TOO_SHORT_S:  # the next send finds the gate up
                raise BacklogUnavailableError(self.entity.path, {}, TOO_LITTLE_TIME) from redirected.cause
            yield from self.attempts.pause(ruling.wait_s)
        raise BacklogUnavailableError(self.entity.path, {}) from redirected.cause

    def _candidate(self, session: str, tried: Collection[str]) -> str | None:
        backlog = self.backlog_of(session)
        return backlog.choose(tried) or backlog.last_resort(tried)

    def _behind(
        self, part: Part, key: str, token: str, ruling: Ruling, cause: BaseException | None
    ) -> Operation[str | None]:
        """Send to the queue of the barrier only; a barrier whose queue is unused yet may be moved."""
        session, work = part
        assert session is not None
        if ruling.others:
            self._at_risk(session, f"another send of the session may be under way ({ruling.others})")
        backlog, queue = self.backlog_of(session), ruling.queue
        errors: dict[str, BaseException] = {}
        may_be_stored = False
        while (left := self.deadline - self.now()) > _TOO_SHORT_S:
            began = self.now()
            outcome = yield from self.attempts.to_backlog(
                work, queue, min(LONGEST_ATTEMPT_S, max(left / 2, min(left, 1.0)))
            )
            if outcome == DONE:
                backlog.accepted(queue, self.now())
                self.order.remember(key, queue)
                self._left(key, token, stored=True, may_be_stored=may_be_stored)
                return queue
            if outcome.is_crowded:
                continue
            if outcome.fault is Fault.CALLER:
                self._left(key, token, stored=False, may_be_stored=may_be_stored)
                raise outcome.error
            may_be_stored |= outcome.is_unknown
            if outcome.repeatable and queue not in errors:
                errors[queue] = outcome.error
                continue  # the same message_id in the same queue: nothing of the session comes between
            backlog.failed(queue, outcome.error, self.now(), began)
            cause = errors[queue] = outcome.error
            moved = yield from self._moved(session, key, token, ruling, errors, is_gone=self.is_gone(outcome.error))
            if moved is None:
                break
            if may_be_stored:
                self._at_risk(session, f"a message was sent again although {queue} may have it")
            queue = moved
        self._left(key, token, stored=False, may_be_stored=may_be_stored)
        raise BacklogUnavailableError(self.entity.path, errors, TOO_LITTLE_TIME) from cause

    def _moved(
        self, session: str, key: str, token: str, ruling: Ruling, tried: Collection[str], *, is_gone: bool
    ) -> Operation[str | None]:
        """Another queue for the session, if it may have one; None if it must stay."""
        if not (ruling.is_new or is_gone):
            return None
        candidate = self._candidate(session, tried)
        if candidate is None or self.order.is_away:
            return None
        moved = yield from self.attempts.ask(partial(self.order.move, key, token, candidate, is_gone=is_gone))
        return candidate if moved else None

    def _left(self, key: str, token: str, *, stored: bool, may_be_stored: bool) -> None:
        """Report that the send has ended; a send that may still arrive is left to expire."""
        if not may_be_stored:
            self.order.left(key, token, stored=stored)

    def _alone(self, part: Part, queue: str | None, redirected: Redirected) -> Operation[str | None]:
        """Redis does not answer: keep the order of the process's own sessions as far as possible."""
        session, work = part
        assert session is not None
        backlog = self.backlog_of(session) if queue is None else _Stays(self.backlog_of(session), queue)
        went_to = yield from self._to_backlog(work, backlog, redirected)
        if went_to is not None:
            self.order.remember(session_key(self.entity.path, session), went_to)
        return went_to

    def _at_risk(self, session: str, reason: str) -> None:
        self.order.at_risk(self.entity.path, f"session {session}: {reason}")


class _Stays:
    """A rotation that starts with a given queue."""

    def __init__(self, backlog: Backlog, first: str) -> None:
        self._backlog, self._first = backlog, first
        self.accepted, self.failed, self.last_resort = backlog.accepted, backlog.failed, backlog.last_resort

    def choose(self, tried: Collection[str]) -> str | None:
        """The first queue, until it was tried."""
        return self._first if self._first not in tried else self._backlog.choose(tried)
