"""The page of live workers, gateways, and the holders of backlog queues."""

import json
from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard.fleet.state.status import is_silent
from dashboard.models import Heartbeat, Pair
from dashboard.site.pages import page_or_part
from dashboard.site.redis import RedisError, connection, shared_state
from pairing.fleet.presence import Presences
from pairing.stored_json import hash_of, readable

MOST_SHOWN = 200
HEARTBEATS = "workers:heartbeat"


@require_GET
def listing(request: HttpRequest) -> HttpResponse:
    """Heartbeats from the database, leases and gateways from Redis; htmx requests return only the live part."""
    now = timezone.now()
    processes = processes_of_workers()
    beats = [
        {"beat": beat, "is_silent": is_silent(beat.seen_at, now), "process": processes.get(beat.process, "")}
        for beat in Heartbeat.objects.order_by("-seen_at")[:MOST_SHOWN]
    ]
    names = {process: worker for worker, process in processes.items()}
    return page_or_part(request, "fleet/workers.html", {"beats": beats, **_shared(names)})


def processes_of_workers() -> dict[str, str]:
    """`<hostname>:<pid>` of each worker by the name in its heartbeat; empty if Redis is unavailable."""
    try:
        return readable(HEARTBEATS, hash_of(connection(), HEARTBEATS), lambda text: str(json.loads(text)["process"]))
    except RedisError:
        return {}


def _shared(names: Mapping[str, str]) -> dict[str, list[tuple[Any, ...]] | None]:
    """Leases with their holders and workers, and live gateways; None if Redis is unavailable."""
    try:
        states = [(pair, shared_state(pair)) for pair in Pair.objects.values_list("name", flat=True)]
        held = [(pair, *one) for pair, shared in states for one in sorted(shared.leases().items())]
        living = [(pair, *one) for pair, shared in states for one in sorted(Presences(shared).living().items())]
    except RedisError:
        return {"leases": None, "gateways": None}
    leases = [(pair, name, owner, names.get(owner.rpartition(":")[0], "")) for pair, name, owner in held]
    return {"leases": leases, "gateways": [(pair, name, one.gateway) for pair, name, one in living if one.gateway]}
