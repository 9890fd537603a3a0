"""Events of operators' actions, recorded here once, not by each process that adopts the change; the end of failures
whose process has ended.

Each process judges an entity by its own sends. One that reports `failing` and is then killed or stopped neither fails
the entity over nor reports a success, and processes that send without a failure have nothing to report.
"""

import os
import socket
import uuid
from datetime import UTC, datetime, timedelta

from django.utils import timezone

from dashboard.access.audited import Request
from dashboard.fleet.state import projection
from dashboard.models import EntityHealth
from dashboard.site.redis import RedisError, shared_state
from pairing.events import Event
from pairing.fleet.presence import ALIVE_S, Presences

REASON = "the process that reported failures has ended, or does not respond"
_RUN = uuid.uuid4().hex[:8]


def record(request: Request, kind: str) -> None:
    """Store the event of a completed action."""
    projection.record_events([event_of(request, kind)])


def event_of(request: Request, kind: str) -> Event:
    """The event of an action on its target."""
    return _event(request.pair.name, request.target, kind, request.reason, request.operator)


def _event(pair: str, entity: str, kind: str, reason: str, operator: str | None = None) -> Event:
    return Event(
        id=uuid.uuid4().hex,
        time=fleet_now(pair),
        pair=pair,
        entity=entity,
        kind=kind,
        reason=reason,
        process=process(),
        operator=operator,
    )


def fleet_now(pair: str) -> datetime:
    """The time of Redis, as for all events of the fleet; the local time if Redis does not answer."""
    try:
        return shared_state(pair).now()
    except RedisError:
        return timezone.now()


def process() -> str:
    """The name of this process in events."""
    return f"{socket.gethostname()}:{os.getpid()}:{_RUN}"


def end_failures(pair: str) -> None:
    """Report entities to Redis as healthy that are only failing in a process without reports for 15 s, each with its
    event. One whose health changes meanwhile is left to the next call. Raises RedisError.
    """
    before = datetime.now(UTC) - timedelta(seconds=ALIVE_S)
    rows = EntityHealth.objects.filter(pair__name=pair, state="failing", applied_at__lt=before)
    paths = list(rows.values_list("path", flat=True))
    if not paths:
        return
    shared = shared_state(pair)
    living = Presences(shared).living()
    for path in paths:
        failing = shared.health_of(path)
        if failing is not None and failing.state == "failing" and failing.process not in living:
            shared.end_failure(failing, REASON, process=process(), event=_event(pair, path, "recovered", REASON))
