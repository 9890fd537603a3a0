"""The operations of the HTTP API, put together from the rooms. The order is that of the OpenAPI document."""

from dashboard.accounts import api as audit
from dashboard.actions import api as actions
from dashboard.alerts.api import alerts, rules
from dashboard.api.site import api, urls
from dashboard.backlog.api import actions as queue_actions
from dashboard.backlog.api import queues
from dashboard.costs.api import charges, statements
from dashboard.drills import api as drills
from dashboard.fleet.api import events, health
from dashboard.incidents import api as incidents
from dashboard.readiness import api as readiness

for room in (
    health,
    events,
    incidents,
    audit,
    queues,
    charges,
    statements,
    readiness,
    drills,
    rules,
    alerts,
    actions,
    queue_actions,
):
    api.add_router("", room.router)

__all__ = ["api", "urls"]
