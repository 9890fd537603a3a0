"""The audited path of every action: permission check, audit entry, and idempotency of repeated requests.

The audit entry is committed before the action, and completed after it with its outcome, in one transaction with the
event and the projection: a power failure in between leaves an entry without an outcome, never an action without an
entry.
"""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import transaction
from django.utils import timezone

from dashboard.access.idempotency import admit
from dashboard.access.rights import Refused, Right, require
from dashboard.access.visibility import require_visible
from dashboard.models import AuditEntry, Pair
from dashboard.site.redis import RedisError, announce_change, shared_state
from pairing.fleet.coordination import SharedState

Person = AbstractBaseUser | AnonymousUser
REDIS_AWAY = "Redis does not answer, so the fleet cannot be notified. Nothing was changed; try again when it is back."
STILL_RUNNING = "This request was sent twice, and the first one is still in progress. Check again in a moment."


class ActionError(Exception):
    """The action could not be carried out. The text is a sentence with the reason; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Request:
    """Who requests what, and why. Requests with the same `request_id` are one action; `via`: the client."""

    user: Person
    pair: Pair
    target: str
    reason: str = ""
    request_id: str = ""
    via: str = ""

    @property
    def operator(self) -> str:
        return self.user.get_username()


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an action: `done` or `unchanged` (the state was as requested already), and a sentence for the
    person.
    """

    outcome: str
    sentence: str


def done(sentence: str) -> Outcome:
    """The action has changed something."""
    return Outcome("done", sentence)


def unchanged(sentence: str) -> Outcome:
    """The state was as requested already."""
    return Outcome("unchanged", sentence)


def perform(
    name: str,
    request: Request,
    run: Callable[[SharedState], Outcome],
    *,
    right: Right = Right.OPERATE,
    atomic: bool = True,
) -> Outcome:
    """Carry out an action on a pair: store the request, run the action, store the outcome.

    An action that calls a namespace is not `atomic`, so that no database lock is held during network calls.
    """
    entry = AuditEntry(
        request_id=request.request_id or uuid.uuid4().hex,
        at=timezone.now(),
        operator=request.operator,
        via=request.via,
        verb=name,
        pair=request.pair.name,
        target=request.target,
        reason=request.reason,
    )
    return carry_out(entry, request.user, lambda: run(shared_state(request.pair.name)), right=right, atomic=atomic)


def carry_out(
    entry: AuditEntry,
    user: Person,
    run: Callable[[], Outcome],
    *,
    right: Right,
    atomic: bool = True,
    is_limited: bool = False,
) -> Outcome:
    """The same for an entry that the caller has filled in. Raises Refused and ActionError.

    `is_limited`: the action itself changes only what the person sees.
    """
    if known := admit(entry):
        return earlier(known)
    try:
        require(user, right)
        if not is_limited:
            require_visible(entry.pair)
        with transaction.atomic() if atomic else nullcontext():
            result = run()
            AuditEntry.complete(entry.request_id, result.outcome, result.sentence)
    except Refused as refusal:
        AuditEntry.complete(entry.request_id, "refused", str(refusal))
        raise
    except RedisError as error:
        AuditEntry.complete(entry.request_id, "failed", REDIS_AWAY)
        raise ActionError(REDIS_AWAY) from error
    except ActionError as error:
        AuditEntry.complete(entry.request_id, "failed", str(error))
        raise
    announce_change()
    return result


def earlier(entry: AuditEntry) -> Outcome:
    """The answer to a request that was sent twice, by the entry of the first."""
    if not entry.outcome:
        raise ActionError(STILL_RUNNING)
    return unchanged(entry.detail)


@contextmanager
def refusals_recorded(user: Person, name: str, pair: str, target: str, *, via: str = "") -> Iterator[None]:
    """Record a refusal of an action that writes its own entry once it is done. Raises Refused."""
    try:
        yield
    except Refused as refusal:
        note(user.get_username(), pair[:63], name, target, str(refusal), via=via, outcome="refused")
        raise


def note(
    operator: str, pair: str, name: str, target: str, detail: str, *, via: str = "", outcome: str = "done"
) -> None:
    """Record an action that is done, or was refused, and changes nothing in the fleet's shared state."""
    AuditEntry(
        request_id=uuid.uuid4().hex,
        at=timezone.now(),
        operator=operator,
        via=via,
        verb=name,
        pair=pair,
        target=target,
        outcome=outcome,
        detail=detail,
    ).save()
