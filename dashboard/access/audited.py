"""The audited path of every action: permission, audit entry, and a request that is sent twice being one action.

The audit entry is committed before the action, and completed after it with its outcome, in one transaction with the
event and the projection: a power failure in between leaves an entry without an outcome, never an action without an
entry.
"""

import uuid
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import transaction
from django.utils import timezone

from dashboard.access.idempotency import admit
from dashboard.access.rights import Refused, Right, require
from dashboard.models import AuditEntry, Pair
from dashboard.site.redis import RedisError, announce_change, shared_state
from pairing.fleet.coordination import SharedState

Person = AbstractBaseUser | AnonymousUser
REDIS_AWAY = "Redis does not answer, so the fleet cannot be told. Nothing was changed; try again when it is back."
STILL_RUNNING = "This was sent twice; the first is still being done. Look again in a moment."


class ActionError(Exception):
    """The action could not be done. The sentence says why, and that nothing was changed."""


@dataclass(frozen=True, slots=True)
class Request:
    """Who asks for what and why. The same `request_id` sent twice is one action; `via`: what the person used."""

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
    """The result of an action: `done` or `unchanged` (it was so already), and a sentence for the person."""

    outcome: str
    sentence: str


def done(sentence: str) -> Outcome:
    """The action has changed something."""
    return Outcome("done", sentence)


def unchanged(sentence: str) -> Outcome:
    """It was so already."""
    return Outcome("unchanged", sentence)


def perform(
    name: str,
    request: Request,
    run: Callable[[SharedState], Outcome],
    *,
    right: Right = Right.OPERATE,
    atomic: bool = True,
) -> Outcome:
    """Carry an action out for a pair: write the request down, do it, write the outcome down.

    An action that asks a namespace is not `atomic`: no lock of the database may wait for a network.
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
    entry: AuditEntry, user: Person, run: Callable[[], Outcome], *, right: Right, atomic: bool = True
) -> Outcome:
    """The same for an entry that the caller has filled in. Raises Refused and ActionError."""
    if known := admit(entry):
        return earlier(known)
    try:
        require(user, right)
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


def note(operator: str, pair: str, name: str, target: str, detail: str, at: datetime | None = None) -> None:
    """Write down an action that is done and changes nothing in the fleet's shared state."""
    AuditEntry(
        request_id=uuid.uuid4().hex,
        at=at or timezone.now(),
        operator=operator,
        verb=name,
        pair=pair,
        target=target,
        outcome="done",
        detail=detail,
    ).save()
