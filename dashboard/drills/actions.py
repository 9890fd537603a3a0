"""The actions on drills, and the schedule that starts them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from dashboard.access.audited import ActionError, Outcome, Request, done, unchanged
from dashboard.access.declaration import Action, Operation, Verb, of_pair
from dashboard.drills.canary import Canary, Moment, canary_of, hindrances, is_marked, look, moment
from dashboard.drills.course import Course, Step
from dashboard.models import Drill, EntityHealth, Pair
from dashboard.site.redis import connection
from pairing.fleet.access import claimed

LONGEST = timedelta(minutes=15)
"""How long the forced failover of a drill lasts at most, even if its workers fail."""
LEAST, USUAL, MOST = 9, 30, 300
SCHEDULE = "schedule"
"""The operator name of scheduled drills."""
ASKED_AGAIN_S = 60
START_DRILL = Action(
    name="start_drill",
    label="Start drill",
    is_atomic=False,
    undo="Abort drill",
    is_severe=True,
    operation=of_pair("start_drill", "Have a worker run a drill on a canary: fail it over, send, release, and drain."),
)
ABORT_DRILL = Action(
    name="abort_drill",
    label="Abort drill",
    operation=Operation(
        "/drills/{drill}/abort", "abort_drill", "Abort a drill; a worker rolls it back within seconds."
    ),
)
DRILL_ENDED = Verb(name="drill_ended", label="Drill ended")
ACTIONS = (START_DRILL, ABORT_DRILL, DRILL_ENDED)


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


@START_DRILL.audited
def start_drill(request: Request, what: Wanted) -> Outcome:
    """Request a drill on the request's target after looking at it."""
    canary, named = look(request.pair.name, request.target), canary_of(request.pair.name)
    return start(request, canary, moment(request.pair), what, is_marked=is_marked(request.target, named))


def begin_if_due(name: str, path: str, every_days: float, now: datetime) -> None:
    """Request a scheduled drill if one is due; while there is a reason against it, check once a minute."""
    pair = Pair.objects.filter(name=name).first()
    since = now - timedelta(days=every_days)
    if pair is None or Drill.objects.filter(pair=pair, path=path, at__gt=since).exists():
        return
    is_first = claimed(connection(), f"workers:drill-asked:{name}", ASKED_AGAIN_S)
    if is_first and not hindrances(look(name, path), moment(pair)):
        start_drill(Request(delegate(SCHEDULE), pair, path, reason="by schedule"), Wanted())


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


@ABORT_DRILL.audited
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
