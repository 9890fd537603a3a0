"""The declarations of the actions on drills, and the schedule that starts them."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from dashboard.access.audited import Outcome, Request
from dashboard.access.declaration import Action, Operation, Verb
from dashboard.drills import requests
from dashboard.drills.canary import canary_of, hindrances, is_marked, look, moment
from dashboard.drills.requests import SCHEDULE, Wanted, delegate
from dashboard.models import Drill, Pair
from dashboard.site.redis import connection
from pairing.fleet.access import claimed

ASKED_AGAIN_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class StartDrill(Action):
    """Requests a drill on the request's target, which a worker executes."""

    def run(self, request: Request, what: Wanted) -> Outcome:
        """Request a drill after checking the canary. Raises ActionError if a drill is not possible."""
        pair = request.pair

        def run() -> Outcome:
            canary, named = look(pair.name, request.target), canary_of(pair.name)
            return requests.start(request, canary, moment(pair), what, is_marked=is_marked(request.target, named))

        return self.execute(request, run)

    def begin_if_due(self, name: str, path: str, every_days: float, now: datetime) -> None:
        """Request a scheduled drill if one is due; while there is a reason against it, check once a minute."""
        pair = Pair.objects.filter(name=name).first()
        since = now - timedelta(days=every_days)
        if pair is None or Drill.objects.filter(pair=pair, path=path, at__gt=since).exists():
            return
        is_first = claimed(connection(), f"workers:drill-asked:{name}", ASKED_AGAIN_S)
        if is_first and not hindrances(look(name, path), moment(pair)):
            self.run(Request(delegate(SCHEDULE), pair, path, reason="by schedule"), Wanted())


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
