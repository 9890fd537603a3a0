"""How a drill begins and is called off: by an operator through the audited path, or by the schedule."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

from django.contrib.auth.models import AbstractBaseUser
from django.db import IntegrityError, transaction
from django.utils import timezone

from dashboard.actions.control import ControlError, Outcome, Request, perform
from dashboard.drills.canary import Canary, Moment, hindrances
from dashboard.drills.plan import Plan, Step
from dashboard.models import Drill, Pair
from pairing.fleet.coordination import SharedState

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


def start(
    request: Request,
    canary: Canary,
    now: Moment,
    *,
    is_marked: bool,
    typed: str = "",
    creates: bool = False,
    kind: str = Drill.Kind.QUEUE,
    messages: int = USUAL,
) -> Outcome:
    """Let a worker carry out a drill on the request's target. A queue that is not marked takes its name typed."""

    def deed(_: SharedState) -> Outcome:
        if not is_marked and typed.strip() != request.target:
            raise ControlError(f"{request.target} is not marked as a canary: type its name to drill on it.")
        if against := hindrances(canary, now, creates=creates):
            raise ControlError(f"{against[0]} Nothing was begun.")
        if not LEAST <= messages <= MOST:
            raise ControlError(f"A drill takes {LEAST} to {MOST} messages.")
        what = canary.kind if canary.is_there else kind
        if wanted(request, creates=creates and bool(canary.missing), messages=messages, kind=what) is None:
            return Outcome("unchanged", f"A drill of {request.pair.name} runs already.")
        return Outcome("done", f"The drill on {request.target} begins: {messages} messages.")

    return perform("start_drill", request, deed)


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

    def deed(_: SharedState) -> Outcome:
        mine = Drill.open_ones().filter(pk=drill.pk, abort_wanted_by="")
        if not mine.update(abort_wanted_by=request.operator):
            return Outcome("unchanged", "The drill is over, or being called off already.")
        return Outcome("done", f"The drill on {drill.path} is being rolled back.")

    return perform("abort_drill", request, deed)


def is_due(last_at: datetime | None, every_days: float | None, now: datetime, against: Sequence[str]) -> bool:
    """Whether the schedule begins a drill: an interval has passed since the last, and nothing speaks against. Pure."""
    if every_days is None or against:
        return False
    return last_at is None or now - last_at >= timedelta(days=every_days)


def begin_by_schedule(pair: Pair, canary: str, now: datetime, kind: str = Drill.Kind.QUEUE) -> Drill | None:
    """A drill that nobody pressed for, audited under the name of the schedule; None where one is under way."""
    who = cast(AbstractBaseUser, Delegate(SCHEDULE))
    wish = Request(user=who, pair=pair, target=canary, reason="by schedule", request_id=uuid.uuid4().hex)
    found: list[Drill] = []

    def deed(_: SharedState) -> Outcome:
        row = wanted(wish, creates=False, messages=USUAL, kind=kind, is_scheduled=True)
        if row is None:
            return Outcome("unchanged", f"A drill of {pair.name} runs already.")
        found.append(row)
        return Outcome("done", f"The drill on {canary} begins: {USUAL} messages.")

    perform("start_drill", wish, deed)
    return found[0] if found else None


def last_of(pair: Pair, canary: str) -> datetime | None:
    """When the last drill on it began."""
    last = Drill.objects.filter(pair=pair, path=canary).order_by("-at").first()
    return last.at if last else None


def as_told(drill: Drill) -> dict[str, Any]:
    """A drill as JSON tells it."""
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
