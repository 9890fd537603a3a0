"""Events of operators' actions: recorded here once, not by each process that adopts the change."""

import os
import socket
import uuid
from datetime import datetime

from django.utils import timezone

from dashboard.access.audited import Request
from dashboard.fleet.state import projection
from dashboard.site.redis import RedisError, shared_state
from pairing.events import Event

_RUN = uuid.uuid4().hex[:8]


def record(request: Request, kind: str) -> None:
    """Store the event of a completed action."""
    projection.record_events([event_of(request, kind)])


def event_of(request: Request, kind: str) -> Event:
    """The event of an action on its target."""
    return Event(
        id=uuid.uuid4().hex,
        time=fleet_now(request.pair.name),
        pair=request.pair.name,
        entity=request.target,
        kind=kind,
        reason=request.reason,
        process=process(),
        operator=request.operator,
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
