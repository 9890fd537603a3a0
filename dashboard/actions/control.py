"""The verbs: what operators do to a pair. Each is permission-checked, audited, and safe to click twice.

The audit entry is committed before the deed, and completed after it with what came of it, in one transaction with the
event and the projection: power that fails in between leaves an entry without an outcome, never a deed without an entry.
"""

import os
import socket
import uuid
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import transaction
from django.utils import timezone

from dashboard.access.idempotency import admit
from dashboard.access.rights import Refused, Right, require
from dashboard.fleet import projection
from dashboard.fleet.catching_up import take_over
from dashboard.models import AuditEntry, EntityHealth, Pair, SyphonPause
from dashboard.models.syphon import WHOLE_PAIR
from dashboard.site.redis import RedisError, announce_change, shared_state
from pairing.events import Event
from pairing.fleet.coordination import SharedHealth, SharedState
from pairing.fleet.shared_state import Verb

NOT_AWAY = "{path} is not failed over, so there is nothing to hold. Force a failover instead."
REDIS_AWAY = "Redis does not answer, so the fleet cannot be told. Nothing was changed; try again when it is back."

KINDS: dict[Verb, str] = {"fail_over": "forced", "hold": "held", "release": "released", "mark_healthy": "recovered"}
"""How the event of each verb is called."""


class ControlError(Exception):
    """The deed could not be done. The sentence says why, and that nothing was changed."""


@dataclass(frozen=True, slots=True)
class Request:
    """Who wants what and why. `request_id` makes the same click sent twice one deed; `via`: what the person used."""

    user: AbstractBaseUser | AnonymousUser
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
    """What came of a deed: `done` or `unchanged` (it was so already), and a sentence for the person."""

    outcome: str
    sentence: str


def fail_over(request: Request, *, expires: datetime | None = None) -> Outcome:
    """Send an entity's messages to the backlog from now on; held until released, or until `expires`."""

    def deed(shared: SharedState) -> Outcome:
        known = shared.health().get(request.target)
        if known and is_forced_so(known, expires):
            return Outcome("unchanged", f"{request.target} was failed over by hand already.")
        change(request, shared, "fail_over", [request.target], expires)
        return Outcome("done", f"{request.target} is failed over: its messages go to the backlog.")

    return perform("fail_over", request, deed)


def hold(request: Request, *, expires: datetime | None = None) -> Outcome:
    """Keep a failed-over entity from returning by itself: until released, or until `expires`, whatever was the end."""

    def deed(shared: SharedState) -> Outcome:
        known = known_of(shared, request.pair, [request.target]).get(request.target)
        if known and is_held_so(known, expires):
            return Outcome("unchanged", f"{request.target} was held by {known.held_by} already.")
        if known is None or known.state != "failed_over":
            raise ControlError(NOT_AWAY.format(path=request.target))
        [changed] = change(request, shared, "hold", [request.target], expires)
        if changed.state != "failed_over":  # it has recovered since it was looked at
            raise ControlError(NOT_AWAY.format(path=request.target))
        return Outcome("done", f"{request.target} is held: an accepted ping does not bring it back.")

    return perform("hold", request, deed)


def release(request: Request) -> Outcome:
    """End a hold: the entity is pinged at once, and an accepted ping heals it."""

    def deed(shared: SharedState) -> Outcome:
        known = known_of(shared, request.pair, [request.target]).get(request.target)
        if known is None or not known.held_by:
            return Outcome("unchanged", f"{request.target} is not held.")
        change(request, shared, "release", [request.target])
        return Outcome("done", f"{request.target} is released: the next accepted ping heals it.")

    return perform("release", request, deed)


def mark_healthy(request: Request) -> Outcome:
    """End hold and failover together: sends go to the primary from now on, whatever it answers."""

    def deed(shared: SharedState) -> Outcome:
        known = known_of(shared, request.pair, [request.target]).get(request.target)
        if known is None or known.state != "failed_over":
            return Outcome("unchanged", f"{request.target} is not failed over.")
        change(request, shared, "mark_healthy", [request.target])
        return Outcome("done", f"{request.target} is marked healthy: sends go to the primary.")

    return perform("mark_healthy", request, deed)


def pause_syphon(request: Request) -> Outcome:
    """Stop bringing messages home within 2 s: from one backlog queue, to one entity, or (target `*`) of the pair."""

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


def fleet_now(pair: str) -> datetime:
    """By the clock that the fleet tells its events by; by this machine's where Redis does not answer any more."""
    try:
        return shared_state(pair).now()
    except RedisError:
        return timezone.now()


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
    entry = AuditEntry(
        request_id=request.request_id or uuid.uuid4().hex,
        at=timezone.now(),
        operator=request.operator,
        via=request.via,
        verb=verb,
        pair=request.pair.name,
        target=request.target,
        reason=request.reason,
    )
    if known := admit(entry):
        return earlier(known)
    try:
        require(request.user, right)
        with transaction.atomic() if atomic else nullcontext():
            result = deed(shared_state(request.pair.name))
            AuditEntry.complete(entry.request_id, result.outcome, result.sentence)
    except Refused as refusal:
        AuditEntry.complete(entry.request_id, "refused", str(refusal))
        raise
    except RedisError as error:
        AuditEntry.complete(entry.request_id, "failed", REDIS_AWAY)
        raise ControlError(REDIS_AWAY) from error
    except ControlError as error:
        AuditEntry.complete(entry.request_id, "failed", str(error))
        raise
    announce_change()
    return result


def earlier(entry: AuditEntry) -> Outcome:
    """The answer to a click that was sent twice, by the entry of the first."""
    if not entry.outcome:
        raise ControlError("This was sent twice; the first is still being done. Look again in a moment.")
    return Outcome("unchanged", entry.detail)


def known_of(shared: SharedState, pair: Pair, paths: Collection[str]) -> dict[str, SharedHealth]:
    """What Redis knows, once it was told again of failovers of these that it has forgotten and the pages still show.

    As a process that remembers them tells it; where none does, nobody else could end them.
    """
    known, wanted = shared.health(), frozenset(paths)
    shown = EntityHealth.objects.filter(pair=pair, state="failed_over")
    forgotten = [one for one in shown if one.path in wanted and _is_older(known.get(one.path), one.version)]
    for one in forgotten:
        shared.restore(_as_told(one))
    return shared.health() if forgotten else known


def _is_older(known: SharedHealth | None, version: int) -> bool:
    return known is None or known.version < version


def _as_told(row: EntityHealth) -> SharedHealth:
    return SharedHealth(
        path=row.path,
        state=row.state,
        since=row.since or timezone.now(),
        reason=row.reason,
        held_by=row.held_by,
        expires=row.expires,
        origin="forced" if row.origin == "forced" else "organic",
        version=row.version,
        process=row.process,
    )


def is_forced_so(known: SharedHealth, expires: datetime | None) -> bool:
    """Whether an operator has failed it over just so: held until the same time."""
    is_forced = known.state == "failed_over" and known.origin == "forced"
    return is_forced and bool(known.held_by) and known.expires == expires


def is_held_so(known: SharedHealth, expires: datetime | None) -> bool:
    """Whether it is held already, until the same time."""
    return bool(known.held_by) and known.expires == expires


def change(
    request: Request, shared: SharedState, verb: Verb, paths: Sequence[str], expires: datetime | None = None
) -> list[SharedHealth]:
    """Change these entities in Redis, and write down that they have changed. What is true of each then.

    Their events are in the fleet's stream with the change: if this process dies before its commit, collectors write
    them down. They have the same ids, so that each is stored once.
    """
    first = _event(request, KINDS[verb])
    told = {path: replace(first, id=uuid.uuid4().hex, entity=path) for path in paths}
    who, run = request.operator, process()
    changed = shared.of_several(
        verb, paths, operator=who, process=run, reason=request.reason, expires=expires, events=told
    )
    with transaction.atomic():
        projection.record_events(told.values())
        take_over(request.pair.name, changed)
    return changed


def _record(request: Request, kind: str) -> None:
    """An operator's deed is told once, here, and not by each process that adopts it."""
    projection.record_events([_event(request, kind)])


def _event(request: Request, kind: str) -> Event:
    return Event(
        id=uuid.uuid4().hex,
        time=fleet_now(request.pair.name),
        pair=request.pair.name,
        entity=request.target,
        kind=kind,
        reason=request.reason,
        process=process(),
        operator=request.operator,
    )


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
