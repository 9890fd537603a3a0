"""The page of live workers and of the holders of backlog queues."""

import json
from collections.abc import Mapping

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard.fleet.state.status import is_silent
from dashboard.models import Heartbeat, Pair
from dashboard.site.pages import page_or_part
from dashboard.site.redis import RedisError, connection, shared_state
from pairing.stored_json import hash_of, readable

MOST_SHOWN = 200
HEARTBEATS = "workers:heartbeat"


@require_GET
def listing(request: HttpRequest) -> HttpResponse:
    """Heartbeats from the database, leases from Redis; htmx requests return only the live part."""
    now = timezone.now()
    newest = Heartbeat.objects.order_by("-seen_at")[:MOST_SHOWN]
    processes = processes_of_workers()
    beats = [
        {"beat": beat, "is_silent": is_silent(beat.seen_at, now), "process": processes.get(beat.process, "")}
        for beat in newest
    ]
    names = {process: worker for worker, process in processes.items()}
    context = {"beats": beats, "leases": _leases(names)}
    return page_or_part(request, "fleet/workers.html", context)


def processes_of_workers() -> dict[str, str]:
    """`<hostname>:<pid>` of each worker by the name in its heartbeat; empty if Redis is unavailable."""
    try:
        return readable(HEARTBEATS, hash_of(connection(), HEARTBEATS), _process)
    except RedisError:
        return {}


def _process(heartbeat: str) -> str:
    return str(json.loads(heartbeat)["process"])


def _leases(names: Mapping[str, str]) -> list[tuple[str, str, str, str]] | None:
    """Pair, leased work, holding process and its worker; None if Redis is unavailable."""
    try:
        found = {name: shared_state(name).leases() for name in Pair.objects.values_list("name", flat=True)}
    except RedisError:
        return None
    return [
        (pair, name, owner, names.get(owner.rpartition(":")[0], ""))
        for pair, leases in found.items()
        for name, owner in sorted(leases.items())
    ]
