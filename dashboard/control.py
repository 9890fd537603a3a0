"""The verbs: what operators do to a pair. Each is permission-checked, audited, and safe to click twice.

The audit entry is committed before the deed, and completed after it with what came of it, in one transaction with the
event and the projection: power that fails in between leaves an entry without an outcome, never a deed without an entry.
"""

import os
import socket
import uuid
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import IntegrityError, transaction
from django.utils import timezone

from dashboard import projection
from dashboard.access import Refused, Right, require
from dashboard.models import AuditEntry, Pair, SyphonPause
from dashboard.models.syphon import WHOLE_PAIR
from dashboard.redis import RedisError, announce_change, shared_state
from pairing.coordination import SharedHealth, SharedState
from pairing.events import Event

REDIS_AWAY = "Redis does not answer, so the fleet cannot be told. Nothing was changed; try again when it is back."


class ControlError(Exception):
    """The deed could not be done. The sentence says why, and that nothing was changed."""


@dataclass(frozen=True, slots=True)
class Request:
    """Who wants what and why. `request_id` makes the same click sent twice one deed."""

    user: AbstractBaseUser | AnonymousUser
    pair: Pair
    target: str
    reason: str = ""
    request_id: str = ""

    @property
    def operator(self) -> str:
        return self.user.get_username()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a deed: `done` or `unchanged` (it was so already), and a sentence for the person."""

    outcome: str
    sentence: str


def fail_over(request: Request, *, hold: bool = True, expires: datetime | None = None) -> Outcome:
    """Send an entity's messages to the backlog from now on; held until released, or until `expires`."""

    def deed(shared: SharedState) -> Outcome:
        known = shared.health().get(request.target)
        if known and is_forced_so(known, hold, expires):
            return Outcome("unchanged", f"{request.target} was failed over by hand already.")
        health = shared.fail_over(
            request.target, request.reason, operator=request.operator, process=process(), hold=hold, expires=expires
        )
        return _changed(request, health, "forced", f"{request.target} is failed over: its messages go to the backlog.")

    return perform("fail_over", request, deed)


def hold(request: Request) -> Outcome:
    """Keep a failed-over entity from returning by itself."""

    def deed(shared: SharedState) -> Outcome:
        known = _failed_over(shared, request.target)
        if known.held_by:
            return Outcome("unchanged", f"{request.target} was held by {known.held_by} already.")
        health = shared.hold(request.target, operator=request.operator, process=process())
        return _changed(request, health, "held", f"{request.target} is held: an accepted ping does not bring it back.")

    return perform("hold", request, deed)


def release(request: Request) -> Outcome:
    """End a hold: the entity is pinged at once, and an accepted ping heals it."""

    def deed(shared: SharedState) -> Outcome:
        known = shared.health().get(request.target)
        if known is None or not known.held_by:
            return Outcome("unchanged", f"{request.target} is not held.")
        health = shared.release(request.target, operator=request.operator, process=process())
        return _changed(request, health, "released", f"{request.target} is released: the next accepted ping heals it.")

    return perform("release", request, deed)


def mark_healthy(request: Request) -> Outcome:
    """End hold and failover together: sends go to the primary from now on, whatever it answers."""

    def deed(shared: SharedState) -> Outcome:
        known = shared.health().get(request.target)
        if known is None or known.state != "failed_over":
            return Outcome("unchanged", f"{request.target} is not failed over.")
        health = shared.mark_healthy(request.target, operator=request.operator, process=process())
        return _changed(request, health, "recovered", f"{request.target} is marked healthy: sends go to the primary.")

    return perform("mark_healthy", request, deed)


def pause_syphon(request: Request) -> Outcome:
    """Stop bringing messages home from one backlog queue, or (target `*`) from all of the pair, within two seconds."""

    def deed(shared: SharedState) -> Outcome:
        queue = _queue(request)
        shared.pause_syphon(queue, operator=request.operator, reason=request.reason)
        _, created = SyphonPause.objects.update_or_create(
            pair=request.pair,
            queue=request.target,
            defaults={"by": request.operator, "reason": request.reason, "at": timezone.now()},
        )
        if not created:
            return Outcome("unchanged", f"The syphon of {_named(request)} was paused already.")
        _record(request, "syphon_paused")
        return Outcome(
            "done", f"The syphon of {_named(request)} is paused: messages stay in the backlog until it resumes."
        )

    return perform("pause_syphon", request, deed)


def resume_syphon(request: Request) -> Outcome:
    """Go on bringing messages home."""

    def deed(shared: SharedState) -> Outcome:
        # The row first: whoever writes pauses back to a Redis that has lost them waits for its lock.
        deleted, _ = SyphonPause.objects.filter(pair=request.pair, queue=request.target).delete()
        shared.resume_syphon(_queue(request))
        if not deleted:
            return Outcome("unchanged", f"The syphon of {_named(request)} was not paused.")
        _record(request, "syphon_resumed")
        return Outcome("done", f"The syphon of {_named(request)} goes on.")

    return perform("resume_syphon", request, deed)


def restore_pauses(pair: str, shared: SharedState) -> int:
    """Write the pauses that a Redis restarted empty no longer knows back to it; how many there were."""
    with transaction.atomic():
        wanted = list(SyphonPause.objects.select_for_update().filter(pair__name=pair))
        known = shared.paused() if wanted else {}
        lost = [pause for pause in wanted if pause.queue not in known]
        for pause in lost:
            queue = None if pause.queue == WHOLE_PAIR else pause.queue
            shared.pause_syphon(queue, operator=pause.by, reason=pause.reason)
    return len(lost)


def process() -> str:
    """This process, as it names itself in events."""
    return f"{socket.gethostname()}:{os.getpid()}:{_RUN}"


_RUN = uuid.uuid4().hex[:8]


def perform(
    verb: str,
    request: Request,
    deed: Callable[[SharedState], Outcome],
    *,
    right: Right = Right.OPERATE,
    atomic: bool = True,
) -> Outcome:
    """Decide, write down what is wanted, do it, write down what came of it.

    A deed that asks a namespace is not `atomic`: no lock of the database may wait for a network.
    """
    request_id = request.request_id or uuid.uuid4().hex
    entry = AuditEntry(
        request_id=request_id,
        at=timezone.now(),
        operator=request.operator,
        verb=verb,
        pair=request.pair.name,
        target=request.target,
        reason=request.reason,
    )
    try:
        with transaction.atomic():
            entry.save()
    except IntegrityError:
        return _earlier(request_id)
    try:
        require(request.user, right)
        with transaction.atomic() if atomic else nullcontext():
            result = deed(shared_state(request.pair.name))
            AuditEntry.complete(request_id, result.outcome, result.sentence)
    except Refused as refusal:
        AuditEntry.complete(request_id, "refused", str(refusal))
        raise
    except RedisError as error:
        AuditEntry.complete(request_id, "failed", REDIS_AWAY)
        raise ControlError(REDIS_AWAY) from error
    except ControlError as error:
        AuditEntry.complete(request_id, "failed", str(error))
        raise
    announce_change()
    return result


def _earlier(request_id: str) -> Outcome:
    entry = AuditEntry.objects.get(request_id=request_id)
    if entry.outcome in ("done", "unchanged"):
        return Outcome("unchanged", entry.detail)
    raise ControlError(entry.detail or "This was sent twice; the first is still being done. Look again in a moment.")


def is_forced_so(known: SharedHealth, hold: bool, expires: datetime | None) -> bool:
    """Whether an operator has failed it over just so: held or not, until the same time."""
    is_forced = known.state == "failed_over" and known.origin == "forced"
    return is_forced and bool(known.held_by) == hold and known.expires == expires


def _failed_over(shared: SharedState, path: str) -> SharedHealth:
    known = shared.health().get(path)
    if known is None or known.state != "failed_over":
        raise ControlError(f"{path} is not failed over, so there is nothing to hold. Force a failover instead.")
    return known


def _changed(request: Request, health: SharedHealth, kind: str, sentence: str) -> Outcome:
    projection.apply_health(request.pair.name, health)
    _record(request, kind)
    return Outcome("done", sentence)


def _record(request: Request, kind: str) -> None:
    """An operator's deed is told once, here, and not by each process that adopts it."""
    event = Event(
        id=uuid.uuid4().hex,
        time=timezone.now(),
        pair=request.pair.name,
        entity=request.target,
        kind=kind,
        reason=request.reason,
        process=process(),
        operator=request.operator,
    )
    projection.record_events([event])


def _queue(request: Request) -> str | None:
    return None if request.target == WHOLE_PAIR else request.target


def _named(request: Request) -> str:
    return request.pair.name if request.target == WHOLE_PAIR else request.target


def note(user: AbstractBaseUser | AnonymousUser, pair: Pair, verb: str, target: str, sentence: str) -> None:
    """Write down a deed that touches nothing of the fleet's shared state, such as breaking a local namespace."""
    AuditEntry(
        request_id=uuid.uuid4().hex,
        at=timezone.now(),
        operator=user.get_username(),
        verb=verb,
        pair=pair.name,
        target=target,
        outcome="done",
        detail=sentence,
    ).save()
