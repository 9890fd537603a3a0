"""The page of an incident, from the first failure to the last drained message, and its JSON."""

from datetime import datetime

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard.fleet.depth import entity_chart
from dashboard.fleet.event_lines import together
from dashboard.fleet.ledgers import during
from dashboard.fleet.paces import limits
from dashboard.incidents.document import actions_during, document, pause_of, pings
from dashboard.incidents.estimates import estimate
from dashboard.incidents.finding import find
from dashboard.incidents.folding import Incident, drain
from dashboard.incidents.moved import moved
from dashboard.site.charts import Point, Window
from dashboard.site.pages import page_or_part
from dashboard.site.snapshot import from_one_reading


@require_GET
@from_one_reading
def detail(request: HttpRequest, pair: str, event_id: str) -> HttpResponse:
    """The page; htmx requests return only the live part."""
    entity, incident, samples = find(pair, event_id)
    now = timezone.now()
    window = _window(incident, now)
    progress, pinged = drain(incident, samples, now), pings(entity, incident)
    context = {
        "pair": entity.pair,
        "entity": entity,
        "incident": incident,
        "lasted": incident.ended_at(now) - incident.began_at,
        "drain": progress,
        "price": estimate(entity, incident, progress, now),
        "chart": entity_chart(entity, _within(samples, window), window),
        "events": together(reversed(incident.events)),
        "actions": actions_during(incident, now),
        "limits": limits(pair, entity.path),
        "moved": moved(incident, now),
        "ledgers": list(during(entity.pair, incident.began_at, incident.ended_at(now))),
        "pause": pause_of(entity),
        "pings": pinged,
        "last_ping_at": datetime.fromisoformat(pinged["last_at"]) if pinged and pinged["last_at"] else None,
    }
    return page_or_part(request, "incidents/detail.html", context)


@require_GET
@from_one_reading
def as_json(request: HttpRequest, pair: str, event_id: str) -> JsonResponse:
    """The content of the page as JSON, for a ticket or a post-mortem."""
    found = document(pair, event_id)
    answer = JsonResponse(found)
    answer["Content-Disposition"] = f'attachment; filename="incident-{found["id"][:8]}.json"'
    return answer


def _window(incident: Incident, now: datetime) -> Window:
    """The time of the incident with a margin of a tenth before and after, up to the present."""
    end = incident.ended_at(now)
    margin = (end - incident.began_at) / 10
    return Window(incident.began_at - margin, end + margin if incident.is_over else now, is_past=True)


def _within(samples: list[Point], window: Window) -> list[Point]:
    """The samples of the window, starting with the depth at its start."""
    before = [(window.start, waiting) for at, waiting in samples if at < window.start][-1:]
    return before + [(at, waiting) for at, waiting in samples if window.start <= at <= window.end]
