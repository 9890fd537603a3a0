"""An incident on one page, from the first failure to the last drained message; and the same as JSON."""

from datetime import datetime, timedelta
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard.charts import Point, Window
from dashboard.depth import entity_chart
from dashboard.incidents import Drain, Incident, drain, drained, incidents
from dashboard.ledgers import during
from dashboard.models import AuditEntry, EntityHealth, FailoverEvent, PairDepth, SyphonLedger, WaitingSample
from dashboard.models.syphon import WHOLE_PAIR
from dashboard.pacing import limits
from dashboard.several import SEPARATOR
from dashboard.telling import together
from dashboard.views.answers import page_or_part

MARGIN = timedelta(minutes=10)
ORDER_TO_EVENT = timedelta(seconds=5)
"""A deed is written down before the fleet is told: what forced an incident precedes it by so much at most."""
MOST_EVENTS, MOST_SHOWN = 2000, 20


@require_GET
def detail(request: HttpRequest, pair: str, event_id: str) -> HttpResponse:
    """The page; htmx gets the live part alone."""
    entity, incident, samples = _find(pair, event_id)
    now = timezone.now()
    window = _window(incident, now)
    context = {
        "pair": entity.pair,
        "entity": entity,
        "incident": incident,
        "lasted": incident.ended_at(now) - incident.began_at,
        "drain": drain(incident, samples, now),
        "chart": entity_chart(entity, _within(samples, window), window),
        "events": together(reversed(incident.events)),
        "deeds": _deeds(incident, now),
        "limits": limits(pair, entity.path),
        "books": list(during(entity.pair, incident.began_at, incident.ended_at(now))),
        "pause": entity.pair.pauses.filter(queue=WHOLE_PAIR).first() or entity.pair.pauses.first(),
    }
    return page_or_part(request, "incidents/detail.html", context)


@require_GET
def as_json(request: HttpRequest, pair: str, event_id: str) -> JsonResponse:
    """Everything the page shows, for a ticket or a post-mortem."""
    entity, incident, samples = _find(pair, event_id)
    now = timezone.now()
    document = _document(incident, drain(incident, samples, now), samples, now)
    books = during(entity.pair, incident.began_at, incident.ended_at(now))
    answer = JsonResponse({**document, "pings": _pings(entity), "ledgers": [_ledger(one) for one in books]})
    answer["Content-Disposition"] = f'attachment; filename="incident-{incident.id[:8]}.json"'
    return answer


def of_entity(entity: EntityHealth, since: datetime) -> list[Incident]:
    """The entity's incidents that began after `since`, newest first."""
    events = FailoverEvent.objects.filter(pair=entity.pair.name, entity=entity.path, time__gte=since)
    found = incidents(events.order_by("time", "id")[:MOST_EVENTS], _interval(entity))
    newest = found[: -MOST_SHOWN - 1 : -1]
    samples = _samples(entity, newest[-1].began_at) if newest else []
    return [_seen_home(entity, incident, samples) for incident in newest]


def _find(pair: str, event_id: str) -> tuple[EntityHealth, Incident, list[Point]]:
    event = get_object_or_404(FailoverEvent, pair=pair, event_id=event_id)
    entity = get_object_or_404(EntityHealth.objects.select_related("pair"), pair__name=pair, path=event.entity)
    events = FailoverEvent.objects.filter(pair=pair, entity=entity.path, time__gte=event.time - 6 * MARGIN)
    for incident in incidents(events.order_by("time", "id")[:MOST_EVENTS], _interval(entity)):
        if any(one.event_id == event_id for one in incident.events):
            samples = _samples(entity, incident.began_at - MARGIN)
            return entity, _seen_home(entity, incident, samples), samples
    raise Http404


def _window(incident: Incident, now: datetime) -> Window:
    """The incident with a tenth of its length before and after, where there is an after."""
    end = incident.ended_at(now)
    margin = (end - incident.began_at) / 10
    return Window(incident.began_at - margin, end + margin if incident.is_over else now, is_past=True)


def _within(samples: list[Point], window: Window) -> list[Point]:
    """The samples of the window, begun with the depth it began with."""
    before = [(window.start, waiting) for at, waiting in samples if at < window.start][-1:]
    return before + [(at, waiting) for at, waiting in samples if window.start <= at <= window.end]


def _interval(entity: EntityHealth) -> timedelta:
    return timedelta(seconds=entity.pair.failover_interval_s)


def _samples(entity: EntityHealth, since: datetime) -> list[Point]:
    rows = WaitingSample.objects.filter(entity=entity, at__gte=since).order_by("at")
    return list(rows.values_list("at", "waiting"))


def _seen_home(entity: EntityHealth, incident: Incident, samples: list[Point]) -> Incident:
    looks = PairDepth.objects.filter(pair=entity.pair_id, at__gte=incident.recovered_at or incident.began_at)
    return drained(incident, samples, looks.order_by("at").values_list("at", flat=True).first())


def _deeds(incident: Incident, now: datetime) -> list[AuditEntry]:
    """What operators did to the entity, or to the whole pair, meanwhile."""
    since = incident.began_at - (ORDER_TO_EVENT if incident.forced_by else timedelta())
    deeds = AuditEntry.objects.filter(pair=incident.pair, at__range=(since, incident.ended_at(now)))
    meant = {incident.entity, WHOLE_PAIR}
    return [deed for deed in deeds.order_by("at")[:MOST_EVENTS] if meant & set(deed.target.split(SEPARATOR))]


def _pings(entity: EntityHealth) -> dict[str, Any]:
    """The last ping, and how many there were."""
    return {
        "count": entity.ping_count,
        "last_at": entity.last_ping_at.isoformat() if entity.last_ping_at else None,
        "accepted": entity.last_ping_accepted,
        "reason": entity.last_ping_reason,
    }


def _ledger(books: SyphonLedger) -> dict[str, Any]:
    return {
        "queue": books.queue,
        "began_at": books.began_at.isoformat(),
        "ended_at": books.ended_at.isoformat() if books.ended_at else None,
        "enqueued": books.enqueued,
        "fates": books.fates,
        "missing": books.missing,
    }


def _document(incident: Incident, drain: Drain, samples: list[Point], now: datetime) -> dict[str, Any]:
    times = ("began_at", "failed_over_at", "recovered_at", "drained_at")
    return {
        "id": incident.id,
        "pair": incident.pair,
        "entity": incident.entity,
        "reason": incident.reason,
        "forced_by": incident.forced_by,
        **{name: at.isoformat() if (at := getattr(incident, name)) else None for name in times},
        "lasted_s": (incident.ended_at(now) - incident.began_at).total_seconds(),
        "peak_messages": drain.peak,
        "waiting_messages": drain.waiting,
        "drain_rate_per_s": drain.rate,
        "events": [
            {
                "time": event.time.isoformat(),
                "kind": event.kind,
                "reason": event.reason,
                "process": event.process,
                "operator": event.operator,
            }
            for event in incident.events
        ],
        "actions": [
            {
                "time": deed.at.isoformat(),
                "operator": deed.operator,
                "verb": deed.verb,
                "target": deed.target,
                "reason": deed.reason,
                "outcome": deed.outcome,
            }
            for deed in _deeds(incident, now)
        ],
        "depth": [[at.isoformat(), waiting] for at, waiting in samples if at <= incident.ended_at(now)],
    }
