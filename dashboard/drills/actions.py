"""The actions on drills, declared: start and abort."""

import uuid
from dataclasses import dataclass
from typing import cast

from django.contrib.auth.models import AbstractBaseUser
from django.utils import timezone

from dashboard.access import audited
from dashboard.access.audited import Outcome, Request, done, unchanged
from dashboard.access.declaration import Action, Command, Operation
from dashboard.drills import requests
from dashboard.drills.canary import look, moment
from dashboard.drills.requests import SCHEDULE, USUAL, Delegate, Wanted
from dashboard.drills.starting import canary_of, is_marked
from dashboard.fleet.boards import last_heartbeat
from dashboard.fleet.status import is_silent
from dashboard.models import Drill, Pair


@dataclass(frozen=True, slots=True, kw_only=True)
class StartDrill(Action):
    """Lets a worker carry out a drill on the request's target."""

    def run(self, request: Request, what: Wanted) -> Outcome:
        """For an operator: the canary is looked at first. Raises ActionError where something speaks against it."""
        pair = request.pair
        canary = look(pair.name, request.target)
        now = moment(pair, is_silent=is_silent(last_heartbeat(), timezone.now()))
        marked = is_marked(request.target, canary_of(pair.name))
        return audited.perform(
            self.name,
            request,
            lambda _: requests.start(request, canary, now, what, is_marked=marked),
            right=self.right,
        )

    def run_by_schedule(self, pair: Pair, canary: str, kind: str = Drill.Kind.QUEUE) -> Drill | None:
        """A drill that nobody asked for, audited under the name of the schedule; None where one is under way."""
        who = cast(AbstractBaseUser, Delegate(SCHEDULE))
        request = Request(user=who, pair=pair, target=canary, reason="by schedule", request_id=uuid.uuid4().hex)
        found: list[Drill] = []

        def run(_: object) -> Outcome:
            row = requests.wanted(request, creates=False, messages=USUAL, kind=kind, is_scheduled=True)
            if row is None:
                return unchanged(f"A drill of {pair.name} runs already.")
            found.append(row)
            return done(f"The drill on {canary} begins: {USUAL} messages.")

        audited.perform(self.name, request, run, right=self.right)
        return found[0] if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortDrill(Action):
    """Calls a drill off."""

    def run(self, request: Request, drill: Drill) -> Outcome:
        """A worker rolls it back within seconds."""
        return audited.perform(self.name, request, lambda _: requests.abort(request, drill), right=self.right)


START_DRILL = StartDrill(
    name="start_drill",
    label="Start drill",
    undo="Abort drill",
    is_severe=True,
    command=Command("drill", "begin a drill: a canary is failed over for real, and comes home"),
    operation=Operation(
        "/pairs/{pair}/start-drill",
        "start_drill",
        "Let a worker carry out a drill on a canary: fail it over, send, release, and bring home.",
    ),
)
ABORT_DRILL = AbortDrill(
    name="abort_drill",
    label="Abort drill",
    command=Command("abort-drill", "call a drill off: a worker rolls it back within seconds"),
    operation=Operation(
        "/drills/{drill}/abort", "abort_drill", "Call a drill off; a worker rolls it back within seconds."
    ),
)
ACTIONS = (START_DRILL, ABORT_DRILL)
