"""How a drill begins and is called off, and when the schedule begins one. The actions are in `drills.actions`."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

from django.contrib.auth.models import AbstractBaseUser
from django.db import IntegrityError, transaction
from django.utils import timezone

from dashboard.access.audited import ActionError, Outcome, Request, done, unchanged
from dashboard.drills.canary import Canary, Moment, hindrances
from dashboard.drills.plan import Plan, Step
from dashboard.models import Drill, Pair

LONGEST = timedelta(minutes=15)
"""After so long the forced failover of a drill ends by itself, whatever happens to its workers."""
LEAST, USUAL, MOST = 9, 30, 300
SCHEDULE = "schedule"
"""The name under which drills begin that nobody pressed for."""


@dataclass(frozen=True, slots=True)
class Delegate:
    """Who carries out what an operator, or the pairs file, has allowed: the right was checked when it began.

    A drill that is under way must be rolled back also if its operator has left the group since.
    """

    name: str
    is_active: bool = True

    def get_username(self) -> str:
        return self.name

    def has_perm(self, right: str) -> bool:
        return True

    @classmethod
    def of(cls, drill: Drill) -> AbstractBaseUser:
        """The one who acts for a drill."""
        return cast(AbstractBaseUser, cls(drill.by))


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a drill is to be: its canary's name typed where it is not marked, whether a missing canary is made and as
    what, and how many messages are sent."""

    typed: str = ""
    creates: bool = False
    kind: str = Drill.Kind.QUEUE
    messages: int = USUAL


def start(request: Request, canary: Canary, now: Moment, what: Wanted, *, is_marked: bool) -> Outcome:
    """Let a worker carry out a drill on the request's target. A queue that is not marked takes its name typed."""
    if not is_marked and what.typed.strip() != request.target:
        raise ActionError(f"{request.target} is not marked as a canary: type its name to drill on it.")
    if against := hindrances(canary, now, creates=what.creates):
        raise ActionError(f"{against[0]} Nothing was begun.")
    if not LEAST <= what.messages <= MOST:
        raise ActionError(f"A drill takes {LEAST} to {MOST} messages.")
    kind = canary.kind if canary.is_there else what.kind
    creates = what.creates and bool(canary.missing)
    if wanted(request, creates=creates, messages=what.messages, kind=kind) is None:
        return unchanged(f"A drill of {request.pair.name} runs already.")
    return done(f"The drill on {request.target} begins: {what.messages} messages.")


def wanted(
    request: Request, *, creates: bool, messages: int, kind: str = Drill.Kind.QUEUE, is_scheduled: bool = False
) -> Drill | None:
    """The row of a new drill; None where the pair has one under way."""
    at = timezone.now()
    row = Drill(
        pair=request.pair,
        path=request.target,
        kind=kind,
        by=request.operator,
        reason=request.reason,
        at=at,
        request_id=request.request_id or uuid.uuid4().hex,
        messages=messages,
        is_scheduled=is_scheduled,
        creates_canary=creates,
        expires_at=at + LONGEST,
        course=Plan(Step.PREPARING, at, messages).as_json(),
    )
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError:
        return None
    return row


def abort(request: Request, drill: Drill) -> Outcome:
    """Call a drill off: a worker rolls it back within seconds."""
    mine = Drill.open_ones().filter(pk=drill.pk, abort_wanted_by="")
    if not mine.update(abort_wanted_by=request.operator):
        return unchanged("The drill is over, or being called off already.")
    return done(f"The drill on {drill.path} is being rolled back.")


def is_due(last_at: datetime | None, every_days: float | None, now: datetime, against: Sequence[str]) -> bool:
    """Whether the schedule begins a drill: an interval has passed since the last, and nothing speaks against. Pure."""
    if every_days is None or against:
        return False
    return last_at is None or now - last_at >= timedelta(days=every_days)


def last_of(pair: Pair, canary: str) -> datetime | None:
    """When the last drill on it began."""
    last = Drill.objects.filter(pair=pair, path=canary).order_by("-at").first()
    return last.at if last else None


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
