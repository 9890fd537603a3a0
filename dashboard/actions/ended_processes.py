"""The end of failures whose process has ended: nobody else would report that the entity is healthy again.

Each process judges an entity by its own sends. One that reports `failing` and is then killed or stopped neither fails
the entity over nor reports a success, and processes that send without a failure have nothing to report.
"""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

from dashboard.actions.events import fleet_now, process
from dashboard.models import EntityHealth
from dashboard.site.redis import shared_state
from pairing.events import Event
from pairing.fleet.presence import ALIVE_S, Presences

REASON = "the process that reported failures has ended, or does not respond"


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
            shared.end_failure(failing, REASON, process=process(), event=_event(pair, path))


def _event(pair: str, path: str) -> Event:
    return Event(
        id=uuid4().hex,
        time=fleet_now(pair),
        pair=pair,
        entity=path,
        kind="recovered",
        reason=REASON,
        process=process(),
    )
