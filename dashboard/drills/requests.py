"""Start and abortion of drills. The actions are in `drills.actions`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from dashboard.access.audited import ActionError, Outcome, Request, done, unchanged
from dashboard.drills.canary import Canary, Moment, hindrances
from dashboard.drills.course import Course, Step
from dashboard.models import Drill, EntityHealth

LONGEST = timedelta(minutes=15)
"""How long the forced failover of a drill lasts at most, even if its workers fail."""
LEAST, USUAL, MOST = 9, 30, 300
SCHEDULE = "schedule"
"""The operator name of scheduled drills."""


def delegate(name: str) -> User:
    """The actor of a drill, whose permission was checked at the start: it is rolled back even if that has ended."""
    return User(username=name, is_superuser=True)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options of a drill: the typed name of an unmarked canary, whether and as what type a missing canary is
    created, and the number of messages.
    """

    typed: str = ""
    creates: bool = False
    kind: str = Drill.Kind.QUEUE
    messages: int = USUAL


def start(request: Request, canary: Canary, now: Moment, what: Wanted, *, is_marked: bool) -> Outcome:
    """Request a drill on the request's target. An unmarked queue requires its typed name."""
    if not is_marked and what.typed.strip() != request.target:
        raise ActionError(f"{request.target} is not marked as a canary: type its name to drill on it.")
    if against := hindrances(canary, now, creates=what.creates):
        raise ActionError(f"{against[0]} No drill was started.")
    row = Drill(
        **request.errand,
        kind=canary.kind if canary.is_there else what.kind,
        messages=what.messages,
        is_scheduled=request.operator == SCHEDULE,
        creates_canary=what.creates and bool(canary.missing),
        expires_at=timezone.now() + LONGEST,
        course=Course(Step.PREPARING, what.messages).as_json(),
    )
    with transaction.atomic():
        if not row.begin():
            return unchanged(f"A drill of {request.pair.name} is already running.")
        if is_marked:  # before the fleet reports its failover, so that it never counts among the entities
            _reserve(row)
    return done(f"The drill on {request.target} begins: {what.messages} messages.")


def _reserve(drill: Drill) -> None:
    """Note the entity as one that only drills use, unless PAIRS_FILE names it as one of the pair's entities."""
    kind = EntityHealth.Kind.TOPIC if drill.kind == Drill.Kind.TOPIC else EntityHealth.Kind.QUEUE
    entity, _ = EntityHealth.objects.get_or_create(pair=drill.pair, path=drill.path, defaults={"kind": kind})
    EntityHealth.objects.filter(pk=entity.pk, is_configured=False).update(is_canary=True)


def abort(request: Request, drill: Drill) -> Outcome:
    """Abort a drill; a worker rolls it back within seconds."""
    mine = Drill.open_ones().filter(pk=drill.pk, abort_wanted_by="")
    if not mine.update(abort_wanted_by=request.operator):
        return unchanged("The drill is over or already being aborted.")
    return done(f"The drill on {drill.path} is being rolled back.")


def as_json(drill: Drill) -> dict[str, Any]:
    """A drill as JSON."""
    return {
        "drill": drill.pk,
        "pair": drill.pair.name,
        "canary": drill.path,
        "kind": drill.kind,
        "by": drill.by,
        "reason": drill.reason,
        "began_at": drill.at.isoformat(),
        "ended_at": drill.ended_at and drill.ended_at.isoformat(),
        "step": drill.step,
        "outcome": drill.outcome or None,
        "detail": drill.detail,
        "report": drill.report,
    }
