"""The rules of sending: to the primary, and while its entity is failed over, to the backlog.

They depend neither on the SDK nor on an event loop: whoever sends supplies the attempts (docs/specification.md,
sections 5 and 6).
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from pairing.drive import Operation
from pairing.errors import RETRY_AFTER_S, TOO_LITTLE_TIME, BacklogUnavailableError, Fault

LONGEST_ATTEMPT_S = 10.0
"""The time limit of a single attempt, regardless of the timeout."""
_TOO_SHORT_S = 0.001


@dataclass(slots=True)
class Failed:
    """The outcome of an attempt that did not succeed."""

    fault: Fault
    error: BaseException
    repeatable: bool = False
    """Whether the link was open before and the failure hides its cause, which a new link may reveal."""
    is_unknown: bool = False
    """Whether the message may have been stored nevertheless."""
    is_crowded: bool = False
    """Whether nothing was sent because other sends occupied the link, which is no evidence about the entity."""


Outcome = Literal["done"] | Failed
DONE: Literal["done"] = "done"


class Attempts(Protocol):
    """How a sender attempts to deliver ``work``, its messages of one call."""

    def to_primary(self, work: Any, timeout_s: float) -> Operation[Outcome]: ...

    def to_backlog(self, work: Any, queue: str, timeout_s: float) -> Operation[Outcome]: ...

    def wait(self, seconds: float) -> Operation[None]: ...


class Redirected(NamedTuple):
    """The primary did not accept the message and the entity is failed over: the message must go to the backlog."""

    deadline: float
    cause: BaseException | None = None
    """The primary's error; None if the primary was not tried."""
    is_unknown: bool = False
    """Whether the primary may have stored the message nevertheless."""


class PingResult(NamedTuple):
    """The result of a ping."""

    path: str
    """The entity."""
    accepted: bool
    """Whether the primary accepted it."""
    reason: str
    """Why not, for an operator."""
    busy: bool = False
    """Whether the server requested a pause."""


class Entity(Protocol):
    """The availability of the destination entity."""

    path: str

    def is_failed_over(self, now: float) -> bool: ...

    def sent(self, now: float) -> None: ...

    def failed(self, now: float, error: BaseException, began: float) -> bool: ...

    def refused(self, now: float, error: BaseException) -> None: ...


class Backlog(Protocol):
    """The rotation of backlog queues, from the view of one sender."""

    def choose(self, tried: Collection[str]) -> str | None: ...

    def last_resort(self, tried: Collection[str]) -> str | None: ...

    def accepted(self, queue: str, now: float) -> None: ...

    def failed(self, queue: str, error: BaseException, now: float, began: float) -> None: ...


def send(
    attempts: Attempts,
    work: Any,
    entity: Entity,
    backlog: Backlog,
    now: Callable[[], float],
    *,
    began_at: float,
    timeout_s: float,
    wait_when_busy: bool = False,
) -> Operation[str | None]:
    """Send once, within the timeout: to the primary, or to a backlog queue while the entity is failed over.

    The timeout began at ``began_at``. Returns the used backlog queue, None for the primary. Raises the primary's own
    error during the failover interval or for errors of the caller, BacklogUnavailableError if no backlog queue accepts
    the message either.
    """
    redirected = yield from send_to_primary(
        attempts, work, entity, now, began_at=began_at, timeout_s=timeout_s, wait_when_busy=wait_when_busy
    )
    if redirected is None:
        return None
    return (yield from send_to_backlog(attempts, work, entity.path, backlog, now, redirected))


def send_to_primary(
    attempts: Attempts,
    work: Any,
    entity: Entity,
    now: Callable[[], float],
    *,
    began_at: float,
    timeout_s: float,
    wait_when_busy: bool = False,
) -> Operation[Redirected | None]:
    """Send to the primary; None if it accepted the message, or how the message is redirected. Raises like ``send``."""
    at = began_at
    deadline, primary_until = at + timeout_s, at + timeout_s / 2
    failure: Failed | None = None
    repeated = False
    while not entity.is_failed_over(at):
        began = at
        outcome = yield from attempts.to_primary(work, min(LONGEST_ATTEMPT_S, primary_until - at))
        at = now()
        if outcome == DONE:
            entity.sent(at)
            return None
        failure = outcome
        if failure.is_crowded and deadline - at > _TOO_SHORT_S:
            primary_until = at + (deadline - at) / 2
        elif failure.fault is Fault.BUSY and wait_when_busy and deadline - at > RETRY_AFTER_S:
            yield from attempts.wait(RETRY_AFTER_S)
            at = now()
            primary_until = at + (deadline - at) / 2
        elif failure.fault is not Fault.OUTAGE:
            if failure.fault is Fault.CONFIGURATION:
                entity.refused(at, failure.error)
            raise failure.error
        elif failure.repeatable and not repeated and primary_until - at > _TOO_SHORT_S:
            repeated = True
        elif not entity.failed(at, failure.error, began):
            raise failure.error
    if failure is None:
        return Redirected(deadline)
    if deadline - at <= _TOO_SHORT_S:
        raise failure.error
    return Redirected(deadline, failure.error, failure.is_unknown)


def send_to_backlog(
    attempts: Attempts,
    work: Any,
    path: str,
    backlog: Backlog,
    now: Callable[[], float],
    redirected: Redirected,
) -> Operation[str | None]:
    """Send to the backlog queues of the rotation one after the other, until one accepts or the time is over."""
    errors: dict[str, BaseException] = {}
    deadline, cause = redirected.deadline, redirected.cause
    is_last_resort = False
    while not is_last_resort and (left := deadline - (began := now())) > _TOO_SHORT_S:
        queue = backlog.choose(errors)
        if queue is None:
            is_last_resort = True
            queue = backlog.last_resort(errors)
        if queue is None:
            raise BacklogUnavailableError(path, errors) from cause
        budget = min(LONGEST_ATTEMPT_S, left if is_last_resort else max(left / 2, min(left, 1.0)))
        outcome = yield from attempts.to_backlog(work, queue, budget)
        if outcome != DONE and outcome.repeatable and (left := began + budget - now()) > _TOO_SHORT_S:
            outcome = yield from attempts.to_backlog(work, queue, left)
        if outcome == DONE:
            backlog.accepted(queue, now())
            return queue
        if outcome.fault is Fault.CALLER and not outcome.is_crowded:
            raise outcome.error
        if not outcome.is_crowded:
            backlog.failed(queue, outcome.error, now(), began)
        cause = errors[queue] = outcome.error
    raise BacklogUnavailableError(path, errors, TOO_LITTLE_TIME) from cause
