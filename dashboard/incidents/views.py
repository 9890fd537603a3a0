"""An incident on one page, from the first failure to the last drained message; and the same as JSON."""

from datetime import datetime, timedelta
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard.actions.entities import SEPARATOR
from dashboard.fleet.depth import entity_chart
from dashboard.fleet.event_lines import together
from dashboard.fleet.ledgers import during
from dashboard.fleet.paces import limits
from dashboard.fleet.peaks import COARSE_S, FINE_S, Step, begin_of, filled
from dashboard.fleet.pruning import KEPT
from dashboard.incidents.estimates import estimate
from dashboard.incidents.estimates import told as price_told
from dashboard.incidents.folding import BEGINNINGS, Drain, Incident, drain, drained, incidents
from dashboard.models import (
    AuditEntry,
    DepthPeak,
    EntityHealth,
    FailoverEvent,
    PairDepth,
    SyphonLedger,
    SyphonPause,
    WaitingSample,
)
from dashboard.models.syphon import WHOLE_PAIR
from dashboard.site.charts import Point, Window
from dashboard.site.pages import page_or_part
from pairing.backlog.rotation import parse_backlog_path
from pairing.fleet.shared_health import Pace

MARGIN = timedelta(minutes=10)
ORDER_TO_EVENT = timedelta(seconds=5)
"""A deed is written down before the fleet is told: what forced an incident precedes it by so much at most."""
MOST_EVENTS, MOST_SHOWN = 2000, 20


@require_GET
def detail(request: HttpRequest, pair: str, event_id: str) -> HttpResponse:
    """The page; htmx gets the live part alone."""
    entity, incident, samples = find(pair, event_id)
    now = timezone.now()
    window = _window(incident, now)
    progress = drain(incident, samples, now)
    context = {
        "pair": entity.pair,
        "entity": entity,
        "incident": incident,
        "lasted": incident.ended_at(now) - incident.began_at,
        "drain": progress,
        "price": estimate(entity, incident, progress, now),
        "chart": entity_chart(entity, _within(samples, window), window),
        "events": together(reversed(incident.events)),
        "deeds": _deeds(incident, now),
        "limits": limits(pair, entity.path),
        "books": list(during(entity.pair, incident.began_at, incident.ended_at(now))),
        "pause": _pause(entity),
        "pings": _pings(entity, incident),
    }
    return page_or_part(request, "incidents/detail.html", context)


def _pause(entity: EntityHealth) -> SyphonPause | None:
    """What keeps its messages from coming home: the pair's pause, its own, or one of a queue, which may hold some."""
    pauses = {pause.queue: pause for pause in entity.pair.pauses.all()}
    others = (pauses[queue] for queue in sorted(pauses) if parse_backlog_path(queue) is not None)
    return pauses.get(WHOLE_PAIR) or pauses.get(entity.path) or next(others, None)


@require_GET
def as_json(request: HttpRequest, pair: str, event_id: str) -> JsonResponse:
    """Everything the page shows, for a ticket or a post-mortem."""
    document = told(pair, event_id)
    answer = JsonResponse(document)
    answer["Content-Disposition"] = f'attachment; filename="incident-{document["id"][:8]}.json"'
    return answer


def told(pair: str, event_id: str) -> dict[str, Any]:
    """The incident that an event belongs to, as JSON takes it; raises Http404."""
    entity, incident, samples = find(pair, event_id)
    now = timezone.now()
    progress = drain(incident, samples, now)
    document = _document(incident, progress, samples, now)
    price = estimate(entity, incident, progress, now)
    books = during(entity.pair, incident.began_at, incident.ended_at(now))
    cost = price_told(price) if price else None
    return {
        **document,
        **_slowed(entity, incident),
        "cost": cost,
        "pings": _pings(entity, incident),
        "ledgers": [_ledger(one) for one in books],
    }


def of_entity(entity: EntityHealth, since: datetime) -> list[Incident]:
    """The entity's incidents that began after `since`, newest first."""
    events = FailoverEvent.objects.filter(pair=entity.pair.name, entity=entity.path, time__gte=since)
    found = incidents(events.order_by("time", "id")[:MOST_EVENTS], _interval(entity))
    newest = found[: -MOST_SHOWN - 1 : -1]
    samples = _samples(entity, newest[-1].began_at) if newest else []
    return [_seen_home(entity, incident, samples) for incident in newest]


def find(pair: str, event_id: str) -> tuple[EntityHealth, Incident, list[Point]]:
    """The incident that an event belongs to, with its entity's depths; raises Http404."""
    event = get_object_or_404(FailoverEvent, pair=pair, event_id=event_id)
    entity = get_object_or_404(EntityHealth.objects.select_related("pair"), pair__name=pair, path=event.entity)
    events = FailoverEvent.objects.filter(pair=pair, entity=entity.path, time__gte=event.time - 6 * MARGIN)
    for incident in incidents(events.order_by("time", "id")[:MOST_EVENTS], _interval(entity)):
        if any(one.event_id == event_id for one in incident.events):
            samples = _remembered(entity, incident)
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


def _samples(entity: EntityHealth, since: datetime, until: datetime | None = None) -> list[Point]:
    rows = WaitingSample.objects.filter(entity=entity, at__gte=since).order_by("at")
    rows = rows.filter(at__lt=until) if until else rows
    return list(rows.values_list("at", "waiting"))


def _remembered(entity: EntityHealth, incident: Incident) -> list[Point]:
    """The depths of an incident, from the peaks of its time where samples have been forgotten.

    Whole hours are compared, so that a peak is only taken for a forgotten one if no sample of its step tells of it.
    """
    since = begin_of(incident.began_at - MARGIN, COARSE_S)
    until = begin_of(_until(entity, incident), COARSE_S) + timedelta(seconds=COARSE_S)
    samples = _samples(entity, since, until)
    peaks = DepthPeak.objects.filter(pair=entity.pair_id, path=entity.path, at__gte=since, at__lt=until).order_by("at")
    for step_s in (FINE_S, COARSE_S):
        known = [Step(*row) for row in peaks.filter(step_s=step_s).values_list("at", "peak", "last")]
        samples = filled(samples, known, step_s, incident.began_at)
    return [(at, waiting) for at, waiting in samples if at >= incident.began_at - MARGIN]


def _until(entity: EntityHealth, incident: Incident) -> datetime:
    """A little after the first look that found nothing left; now where there was none."""
    looks = WaitingSample.objects.filter(entity=entity, waiting=0, at__gte=incident.recovered_at or incident.began_at)
    home = looks.order_by("at").values_list("at", flat=True).first() if incident.recovered_at else None
    return home + max(MARGIN, (home - incident.began_at) / 10) if home else timezone.now()


def _seen_home(entity: EntityHealth, incident: Incident, samples: list[Point]) -> Incident:
    looks = PairDepth.objects.filter(pair=entity.pair_id).order_by("at").values_list("at", flat=True)
    first = looks.filter(at__gte=incident.recovered_at or incident.began_at).first()
    if incident.recovered_at and incident.recovered_at < timezone.now() - KEPT[PairDepth][1]:
        first = incident.recovered_at  # when anybody looked is forgotten; what was found is not
    return drained(incident, samples, first)


def _deeds(incident: Incident, now: datetime) -> list[AuditEntry]:
    """What operators did to the entity, or to the whole pair, meanwhile."""
    since = incident.began_at - (ORDER_TO_EVENT if incident.forced_by else timedelta())
    deeds = AuditEntry.objects.filter(pair=incident.pair, at__range=(since, incident.ended_at(now)))
    meant = {incident.entity, WHOLE_PAIR}
    return [deed for deed in deeds.order_by("at")[:MOST_EVENTS] if meant & set(deed.target.split(SEPARATOR))]


def _pings(entity: EntityHealth, incident: Incident) -> dict[str, Any] | None:
    """The last ping of this failover, and how many there were; None where those of a later one have replaced them."""
    at = entity.last_ping_at
    if at is None or at < incident.failed_over_at:
        return {"count": 0, "last_at": None, "accepted": None, "reason": ""}
    if (later := _next_failover(incident)) and at >= later:
        return None
    return {
        "count": entity.ping_count,
        "last_at": at.isoformat(),
        "accepted": entity.last_ping_accepted,
        "reason": entity.last_ping_reason,
    }


def _next_failover(incident: Incident) -> datetime | None:
    """When the entity failed over again."""
    if incident.recovered_at is None:
        return None
    events = FailoverEvent.objects.filter(pair=incident.pair, entity=incident.entity, kind__in=BEGINNINGS)
    later = events.filter(time__gt=incident.recovered_at).order_by("time")
    return later.values_list("time", flat=True).first()


def _slowed(entity: EntityHealth, incident: Incident) -> dict[str, Any]:
    """What operators hold up its messages with, while these come home."""
    is_draining = incident.recovered_at is not None and not incident.is_over
    pause = _pause(entity) if is_draining else None
    paces = limits(entity.pair.name, entity.path) if is_draining else []
    return {
        "pause": {"queue": pause.queue, **_wish(pause)} if pause else None,
        "paces": [{"target": target, "messages_per_s": pace.rate, **_wish(pace)} for target, pace in paces],
    }


def _wish(of: SyphonPause | Pace) -> dict[str, str]:
    return {"by": of.by, "reason": of.reason, "at": of.at.isoformat()}


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
