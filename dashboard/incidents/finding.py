"""Incidents from the database: folded events, stored depths, and the first empty sample."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.http import Http404
from django.shortcuts import get_object_or_404
from django.utils import timezone

from dashboard.fleet.depth.peaks import COARSE_S, FINE_S, Step, begin_of, filled
from dashboard.fleet.pruning import KEPT
from dashboard.fleet.state.outages import AWAY
from dashboard.fleet.state.status import is_held
from dashboard.incidents.folding import Incident, drain, drained, incidents
from dashboard.models import DepthPeak, EntityHealth, FailoverEvent, PairDepth, WaitingSample
from dashboard.site.charts import Point

MARGIN = timedelta(minutes=10)
RECENT = timedelta(days=7)
MOST_EVENTS, MOST_SHOWN = 2000, 20


def for_its_page(entity: EntityHealth, points: Sequence[Point], now: datetime) -> dict[str, Any]:
    """The entity's recent incidents, and the estimated drain time of the last one, from depths of the last hour."""
    found = of_entity(entity, now - RECENT)
    return {"incidents": found, "left": drain(found[0], points, now).left if found else None}


def of_entity(entity: EntityHealth, since: datetime) -> list[Incident]:
    """The entity's incidents since `since`, newest first."""
    events = FailoverEvent.objects.filter(pair=entity.pair.name, entity=entity.path, time__gte=since)
    found = incidents(events.order_by("time", "id")[:MOST_EVENTS], _interval(entity))
    newest = found[: -MOST_SHOWN - 1 : -1]
    samples = _samples(entity, newest[-1].began_at) if newest else []
    return [_as_it_is(entity, incident, samples) for incident in newest]


def find(pair: str, event_id: str) -> tuple[EntityHealth, Incident, list[Point]]:
    """The incident that an event belongs to, with its entity's depths. Raises Http404."""
    event = get_object_or_404(FailoverEvent, pair=pair, event_id=event_id)
    entity = get_object_or_404(EntityHealth.objects.select_related("pair"), pair__name=pair, path=event.entity)
    events = FailoverEvent.objects.filter(pair=pair, entity=entity.path, time__gte=event.time - 6 * MARGIN)
    for incident in incidents(events.order_by("time", "id")[:MOST_EVENTS], _interval(entity)):
        if any(one.event_id == event_id for one in incident.events):
            samples = _remembered(entity, incident)
            return entity, _as_it_is(entity, incident, samples), samples
    raise Http404


def next_failover(incident: Incident) -> datetime | None:
    """When the entity failed over again."""
    if incident.recovered_at is None:
        return None
    events = FailoverEvent.objects.filter(pair=incident.pair, entity=incident.entity, kind__in=AWAY)
    later = events.filter(time__gt=incident.recovered_at).order_by("time")
    return later.values_list("time", flat=True).first()


def _interval(entity: EntityHealth) -> timedelta:
    return timedelta(seconds=entity.pair.failover_interval_s)


def _samples(entity: EntityHealth, since: datetime, until: datetime | None = None) -> list[Point]:
    rows = WaitingSample.objects.filter(entity=entity, at__gte=since).order_by("at")
    rows = rows.filter(at__lt=until) if until else rows
    return list(rows.values_list("at", "waiting"))


def _remembered(entity: EntityHealth, incident: Incident) -> list[Point]:
    """The depths of an incident, from peaks where samples are pruned.

    Whole hours are compared, so that a peak is only used if there is no sample of its step.
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
    """A time shortly after the first empty sample; now if there is none."""
    looks = WaitingSample.objects.filter(entity=entity, waiting=0, at__gte=incident.recovered_at or incident.began_at)
    emptied = looks.order_by("at").values_list("at", flat=True).first() if incident.recovered_at else None
    return emptied + max(MARGIN, (emptied - incident.began_at) / 10) if emptied else timezone.now()


def _as_it_is(entity: EntityHealth, incident: Incident, samples: list[Point]) -> Incident:
    """The incident with the state and the end that its entity gives it."""
    now = timezone.now()
    incident = replace(incident, is_held=is_held(entity.held_by, entity.expires, now))
    looks = PairDepth.objects.filter(pair=entity.pair_id).order_by("at").values_list("at", flat=True)
    first = looks.filter(at__gte=incident.recovered_at or incident.began_at).first()
    if incident.recovered_at and incident.recovered_at < now - KEPT[PairDepth][1]:
        first = incident.recovered_at  # the times of samples are pruned; their peaks are not
    return drained(incident, samples, first)
