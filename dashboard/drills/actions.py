"""The declarations of the actions on drills: start and abort."""

import uuid
from dataclasses import dataclass
from typing import cast

from django.contrib.auth.models import AbstractBaseUser
from django.utils import timezone

from dashboard.access.audited import Outcome, Request, done, unchanged
from dashboard.access.declaration import Action, Operation, Verb
from dashboard.drills import requests
from dashboard.drills.canary import canary_of, is_marked, look, moment
from dashboard.drills.requests import SCHEDULE, USUAL, Delegate, Wanted
from dashboard.fleet.boards import last_heartbeat
from dashboard.fleet.state.status import is_silent
from dashboard.models import Drill, Pair


@dataclass(frozen=True, slots=True, kw_only=True)
class StartDrill(Action):
    """Requests a drill on the request's target, which a worker executes."""

    def run(self, request: Request, what: Wanted) -> Outcome:
        """Request a drill for an operator, after checking the canary. Raises ActionError if a drill is not possible."""
        pair = request.pair

        def run() -> Outcome:
            canary = look(pair.name, request.target)
            now = moment(pair, is_silent=is_silent(last_heartbeat(), timezone.now()))
            return requests.start(request, canary, now, what, is_marked=is_marked(request.target, canary_of(pair.name)))

        return self.execute(request, run)

    def run_by_schedule(self, pair: Pair, canary: str, kind: str = Drill.Kind.QUEUE) -> Drill | None:
        """Start a scheduled drill, audited under the name of the schedule; None if one is running."""
        who = cast(AbstractBaseUser, Delegate(SCHEDULE))
        request = Request(user=who, pair=pair, target=canary, reason="by schedule", request_id=uuid.uuid4().hex)
        found: list[Drill] = []

        def run() -> Outcome:
            row = requests.wanted(request, creates=False, messages=USUAL, kind=kind, is_scheduled=True)
            if row is None:
                return unchanged(f"A drill of {pair.name} is already running.")
            found.append(row)
            return done(f"The drill on {canary} begins: {USUAL} messages.")

        self.execute(request, run)
        return found[0] if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortDrill(Action):
    """Aborts a drill."""

    def run(self, request: Request, drill: Drill) -> Outcome:
        """Abort a drill; a worker rolls it back within seconds."""
        return self.execute(request, lambda: requests.abort(request, drill))


START_DRILL = StartDrill(
    name="start_drill",
    label="Start drill",
    is_atomic=False,
    undo="Abort drill",
    is_severe=True,
    operation=Operation(
        "/pairs/{pair}/start-drill",
        "start_drill",
        "Have a worker run a drill on a canary: fail it over, send, release, and drain.",
    ),
)
ABORT_DRILL = AbortDrill(
    name="abort_drill",
    label="Abort drill",
    operation=Operation(
        "/drills/{drill}/abort", "abort_drill", "Abort a drill; a worker rolls it back within seconds."
    ),
)
DRILL_ENDED = Verb(name="drill_ended", label="Drill ended")
ACTIONS = (START_DRILL, ABORT_DRILL, DRILL_ENDED)
