"""Scheduled drills."""

from datetime import datetime

from dashboard.drills import canary
from dashboard.drills import requests as wanting
from dashboard.drills.actions import START_DRILL
from dashboard.fleet.boards import last_heartbeat
from dashboard.fleet.state.status import is_silent
from dashboard.models import Drill, Pair
from dashboard.site.redis import connection
from pairing.fleet.access import claimed

ASKED_AGAIN_S = 60


def begin_if_due(name: str, path: str, every_days: float, now: datetime) -> Drill | None:
    """Start a scheduled drill if one is due; while there is a reason against it, check once a minute."""
    pair = Pair.objects.filter(name=name).first()
    if pair is None or not wanting.is_due(wanting.last_of(pair, path), every_days, now):
        return None
    if not claimed(connection(), f"workers:drill-asked:{name}", ASKED_AGAIN_S):
        return None
    moment = canary.moment(pair, is_silent=is_silent(last_heartbeat(), now))
    seen = canary.look(name, path)
    against = canary.hindrances(seen, moment)
    return None if against else START_DRILL.run_by_schedule(pair, path, seen.kind)
