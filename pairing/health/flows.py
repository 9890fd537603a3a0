"""The rules of sending and pinging, written once: generators that yield an action and receive its outcome.

They know neither the SDK nor the world they run in; ``pairing.drive`` performs their actions, blocking or awaited
(docs/specification.md, sections 5 to 7).
"""

from collections.abc import Callable, Collection, Generator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from pairing.errors import RETRY_AFTER_S, BacklogUnavailableError, Fault

LONGEST_ATTEMPT_S = 10.0
"""No single attempt takes longer, however generous the caller is."""
_TOO_SHORT_S = 0.001


@dataclass(slots=True)
class ToPrimary:
    """Send the message to its entity in the primary."""

    timeout_s: float
    part: Any = None
    """What to send, where that is not all of the call's messages."""


@dataclass(slots=True)
class ToBacklog:
    """Send the message, rewritten, to a backlog queue."""

    queue: str
    timeout_s: float
    part: Any = None
    """What to send, where that is not all of the call's messages."""


@dataclass(slots=True)
class Wait:
    """Wait, unless the entity fails over meanwhile."""

    seconds: float


@dataclass(slots=True)
class OpenFresh:
    """Open a link of its own to the entity in the primary."""

    timeout_s: float


@dataclass(slots=True)
class SendPing:
    """Send a ping on the link just opened."""

    timeout_s: float


Action = ToPrimary | ToBacklog | Wait
PingAction = OpenFresh | SendPing


@dataclass(slots=True)
class Failed:
    """An action that did not succeed."""

    fault: Fault
    error: BaseException
    repeatable: bool = False
    """Whether the link had been open before and the failure hides its cause: a fresh link may tell."""
    is_unknown: bool = False
    """Whether the message may have been stored all the same."""
    is_crowded: bool = False
    """Whether nothing was sent, for others held the link all the time: it says nothing of the entity."""


Outcome = Literal["done"] | Failed
DONE: Literal["done"] = "done"

SendFlow = Generator[Any, Any, str | None]
Redirect = Callable[[float, Failed | None], SendFlow]
PingFlow = Generator[PingAction, Outcome, "PingResult"]


@dataclass(frozen=True, slots=True)
class PingResult:
    """What a ping learnt of an entity."""

    path: str
    accepted: bool
    reason: str
    busy: bool = False


class Entity(Protocol):
    """The availability of the entity that is sent to."""

    path: str

    def is_failed_over(self, now: float) -> bool: ...

    def sent(self, now: float) -> None: ...

    def failed(self, now: float, error: BaseException, began: float) -> bool:
        """Record a qualifying failure; whether the entity is failed over now."""
        ...

    def refused(self, now: float, error: BaseException) -> None: ...


class Backlog(Protocol):
    """The rotation of backlog queues, as one sender sees it."""

    def choose(self, tried: Collection[str]) -> str | None: ...

    def last_resort(self, tried: Collection[str]) -> str | None: ...

    def accepted(self, queue: str, now: float) -> None: ...

    def failed(self, queue: str, error: BaseException, now: float, began: float) -> None: ...


def first_timeout_s(timeout_s: float) -> float:
    """What the first attempt on the primary gets of a send's timeout."""
    return min(LONGEST_ATTEMPT_S, timeout_s / 2)


def send_flow(
    entity: Entity,
    backlog: Backlog,
    now: Callable[[], float],
    *,
    timeout_s: float,
    wait_when_busy: bool = False,
    began_at: float | None = None,
    part: Any = None,
    redirect: Redirect | None = None,
) -> SendFlow:
    """Send once, within the timeout: to the primary, or to a backlog queue while the entity is failed over.

    ``began_at``: when the timeout began, where that was not now. ``redirect`` replaces the way to the backlog: a flow,
    given the deadline and what failed on the primary.
    Returns the backlog queue it went to, None for the primary. Raises the primary's own error while its failure is
    accepted or the caller's fault, BacklogUnavailableError where no backlog queue takes the message either.
    """
    at = now() if began_at is None else began_at
    deadline = at + timeout_s
    primary_until = at + timeout_s / 2
    cause: BaseException | None = None
    repeated = False
    while not entity.is_failed_over(at):
        began = at
        outcome = yield ToPrimary(min(LONGEST_ATTEMPT_S, primary_until - at), part)
        at = now()
        if outcome == DONE:
            entity.sent(at)
            return None
        cause = outcome.error
        if outcome.is_crowded and deadline - at > _TOO_SHORT_S:
            primary_until = at + (deadline - at) / 2
        elif outcome.fault is Fault.BUSY and wait_when_busy and deadline - at > RETRY_AFTER_S:
            yield Wait(RETRY_AFTER_S)
            at = now()
            primary_until = at + (deadline - at) / 2
        elif outcome.fault is not Fault.OUTAGE:
            if outcome.fault is Fault.CONFIGURATION:
                entity.refused(at, cause)
            raise cause
        elif outcome.repeatable and not repeated and primary_until - at > _TOO_SHORT_S:
            repeated = True
        elif not entity.failed(at, cause, began):
            raise cause
    if cause is not None and deadline - at <= _TOO_SHORT_S:
        raise cause
    if redirect is not None:
        return (yield from redirect(deadline, outcome if cause is not None else None))
    return (yield from backlog_flow(entity.path, backlog, now, deadline=deadline, cause=cause, part=part))


def backlog_flow(
    path: str,
    backlog: Backlog,
    now: Callable[[], float],
    *,
    deadline: float,
    cause: BaseException | None = None,
    part: Any = None,
) -> SendFlow:
    """Send to the backlog queues of the rotation, one after the other, until one accepts or the time is over."""
    errors: dict[str, BaseException] = {}
    desperate = False
    while not desperate and (left := deadline - now()) > _TOO_SHORT_S:
        queue = backlog.choose(errors)
        if queue is None:
            desperate = True
            queue = backlog.last_resort(errors)
        if queue is None:
            break
        began = now()
        until = began + min(LONGEST_ATTEMPT_S, left if desperate else max(left / 2, min(left, 1.0)))
        outcome = yield ToBacklog(queue, until - now(), part)
        if outcome != DONE and outcome.repeatable and (left := until - now()) > _TOO_SHORT_S:
            outcome = yield ToBacklog(queue, left, part)
        if outcome == DONE:
            backlog.accepted(queue, now())
            return queue
        if outcome.fault is Fault.CALLER and not outcome.is_crowded:
            raise outcome.error
        if not outcome.is_crowded:
            backlog.failed(queue, outcome.error, now(), began)
        cause = errors[queue] = outcome.error
    raise BacklogUnavailableError(path, errors) from cause


def ping_flow(
    path: str, now: Callable[[], float], describe: Callable[[BaseException], str], *, timeout_s: float
) -> PingFlow:
    """Ask once whether the entity accepts sends: a fresh link first, the message only where that opens."""
    deadline = now() + timeout_s
    outcome = yield OpenFresh(timeout_s)
    if outcome == DONE:
        outcome = yield SendPing(max(deadline - now(), _TOO_SHORT_S))
    if outcome == DONE:
        return PingResult(path, True, "accepted")
    return PingResult(path, False, describe(outcome.error), outcome.fault is Fault.BUSY)
