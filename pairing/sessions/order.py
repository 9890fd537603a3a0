"""Sending while sessions are kept in order: a flow around the plain one. It does no I/O and knows no clock.

While a session has messages in the backlog, its new ones join them, in the same queue, whichever process sends them and
however healthy the entity looks. So that nothing overtakes, what decides is written down, and confirmed, before a
message goes to the backlog (docs/design/session-order.md).
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from pairing.errors import BacklogUnavailableError, Fault
from pairing.health.flows import (
    DONE,
    LONGEST_ATTEMPT_S,
    Backlog,
    Entity,
    Failed,
    SendFlow,
    ToBacklog,
    backlog_flow,
    send_flow,
)
from pairing.sessions.shared import Ruling, session_key

_TOO_SHORT_S = 0.001

Part = tuple[str | None, Any]
"""A session, None for messages without one, and what is sent of it."""


@dataclass(slots=True)
class Consult:
    """Ask where a message of the session must go. Outcome: a Ruling, or None where Redis does not answer."""

    key: str
    candidate: str | None
    token: str
    within_s: float


@dataclass(slots=True)
class Move:
    """Let the session's barrier name another queue. Outcome: whether it does."""

    key: str
    token: str
    queue: str
    is_gone: bool


@dataclass(slots=True)
class Pause:
    """Wait so long."""

    seconds: float


OrderAction = Consult | Move | Pause


class Order(Protocol):
    """What the process knows of barriers by itself; nothing here waits."""

    def is_free(self, entity: str) -> bool:
        """Whether it is certain that no session of the entity has a barrier."""
        ...

    def token(self) -> str: ...

    def left(self, key: str, token: str, *, stored: bool) -> None: ...

    def remember(self, key: str, queue: str) -> None: ...

    def remembered(self, key: str) -> str | None: ...

    def at_risk(self, entity: str, reason: str) -> None: ...


@dataclass(slots=True)
class SessionSend:
    """One call to send with messages of one or more sessions; ``run`` is its flow."""

    entity: Entity
    order: Order
    backlog_of: Callable[[str | None], Backlog]
    now: Callable[[], float]
    deadline: float
    wait_when_busy: bool
    is_gone: Callable[[BaseException], bool]
    began_at: float
    """When the timeout began."""

    def run(self, parts: list[Part], *, tried: bool) -> SendFlow:
        """All parts in their order. ``tried``: the primary was tried with all of them, while it was certain to be free.

        Returns the backlog queue of the last part, None for the primary. What was accepted before another part failed
        stays so, and is told in a note on the error.
        """
        if tried or self.order.is_free(self.entity.path):
            redirect = partial(self._redirect_all, parts)
            return (yield from self._send(None, None, began_at=self.began_at, redirect=redirect))
        return (yield from self._each(parts, self._part))

    def _send(self, part: Any, session: str | None, *, began_at: float | None = None, redirect: Any = None) -> SendFlow:
        at = self.now() if began_at is None else began_at
        return send_flow(
            self.entity,
            self.backlog_of(session),
            self.now,
            timeout_s=self.deadline - at,
            wait_when_busy=self.wait_when_busy,
            began_at=at,
            part=part,
            redirect=redirect,
        )

    def _each(self, parts: list[Part], send: Callable[[Part], SendFlow]) -> SendFlow:
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

    def _part(self, part: Part) -> SendFlow:
        """One session, while it is not certain that it has no barrier."""
        session, work = part
        if session is None:
            return (yield from self._send(work, None))
        key, token = session_key(self.entity.path, session), self.order.token()
        ruling: Ruling | None = yield Consult(key, None, token, self.deadline - self.now())
        if ruling is None and (queue := self.order.remembered(key)) is not None:
            return (yield from self._alone(part, queue, None))
        if ruling is not None and ruling.queue:
            return (yield from self._behind(part, key, token, ruling, None))
        return (yield from self._send(work, session, redirect=partial(self._redirect, part)))

    def _redirect_all(self, parts: list[Part], deadline: float, failure: Failed | None) -> SendFlow:
        return (yield from self._each(parts, lambda part: self._redirect(part, deadline, failure)))

    def _redirect(self, part: Part, deadline: float, failure: Failed | None) -> SendFlow:
        """The entity is failed over: the session's messages go to the backlog from now on."""
        session, work = part
        cause = failure.error if failure is not None else None
        if session is None:
            path, backlog = self.entity.path, self.backlog_of(None)
            return (yield from backlog_flow(path, backlog, self.now, deadline=deadline, cause=cause, part=work))
        if failure is not None and failure.is_unknown:
            self._at_risk(session, "a message was sent again although the first attempt may have been stored")
        key, token = session_key(self.entity.path, session), self.order.token()
        while (candidate := self._candidate(session, ())) is not None:
            left = deadline - self.now()
            ruling: Ruling | None = yield Consult(key, candidate, token, left)
            if ruling is None:
                return (yield from self._alone(part, self.order.remembered(key), cause))
            if ruling.queue:
                return (yield from self._behind(part, key, token, ruling, cause))
            if left <= ruling.wait_s + _TOO_SHORT_S:
                break  # a timeout so short: the caller keeps the message, and the next send finds the gate up
            yield Pause(ruling.wait_s)
        raise BacklogUnavailableError(self.entity.path, {}) from cause

    def _candidate(self, session: str, tried: Collection[str]) -> str | None:
        backlog = self.backlog_of(session)
        return backlog.choose(tried) or backlog.last_resort(tried)

    def _behind(self, part: Part, key: str, token: str, ruling: Ruling, cause: BaseException | None) -> SendFlow:
        """To the queue that the barrier names, and to no other; one that nobody used yet may be moved."""
        session, work = part
        assert session is not None
        if ruling.others:
            self._at_risk(session, f"another send of the session may be under way ({ruling.others})")
        backlog, queue = self.backlog_of(session), ruling.queue
        errors: dict[str, BaseException] = {}
        may_be_stored = False
        while (left := self.deadline - self.now()) > _TOO_SHORT_S:
            began = self.now()
            outcome = yield ToBacklog(queue, min(LONGEST_ATTEMPT_S, max(left / 2, min(left, 1.0))), work)
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
        raise BacklogUnavailableError(self.entity.path, errors) from cause

    def _moved(
        self, session: str, key: str, token: str, ruling: Ruling, tried: Collection[str], *, is_gone: bool
    ) -> Any:
        """Another queue for the session, where it may have one; None where it must stay."""
        if not (ruling.is_new or is_gone):
            return None
        candidate = self._candidate(session, tried)
        if candidate is None:
            return None
        return candidate if (yield Move(key, token, candidate, is_gone)) else None

    def _left(self, key: str, token: str, *, stored: bool, may_be_stored: bool) -> None:
        """Tell that the send has ended; one that may still arrive is left to end by itself."""
        if not may_be_stored:
            self.order.left(key, token, stored=stored)

    def _alone(self, part: Part, queue: str | None, cause: BaseException | None) -> SendFlow:
        """Redis does not answer: this process keeps its own sessions together, as well as it can."""
        session, work = part
        assert session is not None
        backlog = self.backlog_of(session) if queue is None else _Stays(self.backlog_of(session), queue)
        path, now = self.entity.path, self.now
        went_to = yield from backlog_flow(path, backlog, now, deadline=self.deadline, cause=cause, part=work)
        if went_to is not None:
            self.order.remember(session_key(path, session), went_to)
        return went_to

    def _at_risk(self, session: str, reason: str) -> None:
        self.order.at_risk(self.entity.path, f"session {session}: {reason}")


class _Stays:
    """A rotation that begins with one queue."""

    def __init__(self, backlog: Backlog, first: str) -> None:
        self._backlog, self._first = backlog, first
        self.accepted, self.failed, self.last_resort = backlog.accepted, backlog.failed, backlog.last_resort

    def choose(self, tried: Collection[str]) -> str | None:
        """The first queue, until it was tried."""
        return self._first if self._first not in tried else self._backlog.choose(tried)


def by_session(messages: Iterable[Any], is_ordered: Callable[[Any], bool]) -> dict[str | None, list[Any]]:
    """The messages by session, in the order in which each comes first; None: those that no order is kept for."""
    found: dict[str | None, list[Any]] = {}
    for message in messages:
        found.setdefault(message.session_id if is_ordered(message) else None, []).append(message)
    return found
