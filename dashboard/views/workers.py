"""Workers: who is alive, and who drains which backlog queue."""

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard.models import Heartbeat, Pair
from dashboard.redis import RedisError, shared_state
from dashboard.status import is_silent
from dashboard.views.answers import page_or_part

MOST_SHOWN = 200


@require_GET
def listing(request: HttpRequest) -> HttpResponse:
    """Heartbeats from the database, leases from Redis; htmx gets the live part alone."""
    now = timezone.now()
    newest = Heartbeat.objects.order_by("-seen_at")[:MOST_SHOWN]
    beats = [{"beat": beat, "is_silent": is_silent(beat.seen_at, now)} for beat in newest]
    context = {"beats": beats, "leases": _leases()}
    return page_or_part(request, "workers/list.html", context)


def _leases() -> list[tuple[str, str, str]] | None:
    """Pair, what is leased, and by whom; None where Redis is away."""
    try:
        found = {name: shared_state(name).leases() for name in Pair.objects.values_list("name", flat=True)}
    except RedisError:
        return None
    return [(pair, name, owner) for pair, leases in found.items() for name, owner in sorted(leases.items())]
