"""Incidents from the database: folded events, stored depths, and the first empty sample.

Those of a whole page are read together, in a number of queries that does not depend on how many they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import OuterRef, Q, Subquery
from django.http import Http404
from django.shortcuts import get_object_or_404
from django.utils import timezone

from dashboard.fleet.depth.peaks import COARSE_S, FINE_S, Step, begin_of, filled
from dashboard.fleet.pruning import KEPT
from dashboard.fleet.state.status import is_held
from dashboard.incidents.folding import Incident, drained, incidents
from dashboard.models import DepthPeak, EntityHealth, FailoverEvent, PairDepth, WaitingSample
from dashboard.site.charts import Point, by_key

MARGIN = timedelta(minutes=10)
MOST_EVENTS = 2000


@dataclass(frozen=True, slots=True)
class Found:
    """An incident with its entity, and the depths of the backlog of the entity in its time."""

    entity: EntityHealth
    incident: Incident
    samples: Sequence[Point]


def find(pair: str, event_id: str) -> Found:
    """The incident that an event belongs to. Raises Http404."""
    event = get_object_or_404(FailoverEvent, pair=pair, event_id=event_id)
    if found := found_of([event], timezone.now()).get(event_id):
        return found
    raise Http404


def found_of(events: Sequence[FailoverEvent], now: datetime) -> Mapping[str, Found]:
    """The incidents that these events belong to, by the event's id; none of an event of an entity that is deleted."""
    places = {(event.pair, event.entity) for event in events}
    rows = _any(EntityHealth.objects.select_related("pair"), places, lambda of: Q(pair__name=of[0], path=of[1]))
    entities = {(row.pair.name, row.path): row for row in rows}
    near = _any(FailoverEvent.objects.order_by("time", "id"), events, _near)[: MOST_EVENTS * len(events)]
    by_place: dict[tuple[str, str], list[FailoverEvent]] = defaultdict(list)
    for one in near:
        by_place[one.pair, one.entity].append(one)
    folded = {
        one.event_id: (entity, incident)
        for place, entity in entities.items()
        for incident in incidents(by_place[place], _interval(entity))
        for one in incident.events
    }
    kept = {event.event_id: folded[event.event_id] for event in events if event.event_id in folded}
    return dict(zip(kept, _completed(list(kept.values()), now), strict=True))


def _near(event: FailoverEvent) -> Q:
    """What may belong to its incident: up to the recovery, if that is known."""
    since, until = event.time - 6 * MARGIN, getattr(event, "back_at", None)
    rest = Q(time__range=(since, until)) if until else Q(time__gte=since)
    return rest & Q(pair=event.pair, entity=event.entity)


def _any(rows: Any, each: Iterable[Any], condition: Callable[[Any], Q]) -> Any:
    """The rows that fulfil the condition of one of them."""
    return rows.filter(reduce(or_, map(condition, each), Q(pk__in=())))


def _interval(entity: EntityHealth) -> timedelta:
    return timedelta(seconds=entity.pair.failover_interval_s)


def _completed(known: Sequence[tuple[EntityHealth, Incident]], now: datetime) -> list[Found]:
    """The incidents with their depths, and with the state and the end that their entity gives them."""
    depths, looks = _remembered(known, now), _first_looks([incident for _, incident in known])
    found = []
    for entity, incident in known:
        since = incident.began_at - MARGIN
        samples = [(at, waiting) for at, waiting in depths[entity.pk, incident.id] if at >= since]
        first = looks.get(incident.id)
        if incident.recovered_at and incident.recovered_at < now - KEPT[PairDepth][1]:
            first = incident.recovered_at  # the times of samples are pruned; their peaks are not
        as_it_is = replace(incident, is_held=is_held(entity.held_by, entity.expires, now))
        found.append(Found(entity, drained(as_it_is, samples, first), samples))
    return found


def _first_looks(known: Sequence[Incident]) -> Mapping[str, datetime]:
    """By incident, when the backlog was first counted after the recovery."""
    ended = {one.events[-1].pk: one.id for one in known if one.recovered_at}
    looks = PairDepth.objects.filter(pair__name=OuterRef("pair"), at__gte=OuterRef("time")).order_by("at")
    events = FailoverEvent.objects.filter(pk__in=ended).annotate(look=Subquery(looks.values("at")[:1]))
    return {ended[key]: look for key, look in events.values_list("pk", "look") if look}


def _remembered(
    known: Sequence[tuple[EntityHealth, Incident]], now: datetime
) -> Mapping[tuple[int, str], Sequence[Point]]:
    """The depths of each incident, from peaks where samples are pruned.

    Whole hours are compared, so that a peak is only used if there is no sample of its step.
    """
    emptied = defaultdict[int, list[datetime]](list)
    looks = WaitingSample.objects.filter(entity__in={entity.pk for entity, _ in known}, waiting=0).order_by("at")
    for key, at in looks.filter(at__gte=min((one.began_at for _, one in known), default=now)).values_list(
        "entity", "at"
    ):
        emptied[key].append(at)
    spans = {(entity.pk, one.id): _span(one, emptied[entity.pk], now) for entity, one in known}
    steps = defaultdict[tuple[int, str, int], list[Step]](list)
    rows = _any(WaitingSample.objects.order_by("at"), spans.items(), lambda of: _within(of[1], entity=of[0][0]))
    raw = by_key(rows.values_list("entity", "at", "waiting"))
    places = [(spans[entity.pk, one.id], entity) for entity, one in known]
    peaks = _any(
        DepthPeak.objects.order_by("at"), places, lambda of: _within(of[0], pair=of[1].pair_id, path=of[1].path)
    )
    for pair, path, step_s, *step in peaks.values_list("pair", "path", "step_s", "at", "peak", "last"):
        steps[pair, path, step_s].append(Step(*step))
    found = {}
    for entity, one in known:
        since, until = spans[entity.pk, one.id]
        samples = [point for point in raw[entity.pk] if since <= point[0] < until]
        for step_s in (FINE_S, COARSE_S):
            own = [step for step in steps[entity.pair_id, entity.path, step_s] if since <= step.at < until]
            samples = filled(samples, own, step_s, one.began_at)
        found[entity.pk, one.id] = samples
    return found


def _within(span: tuple[datetime, datetime], **place: Any) -> Q:
    return Q(at__gte=span[0], at__lt=span[1], **place)


def _span(incident: Incident, emptied: Sequence[datetime], now: datetime) -> tuple[datetime, datetime]:
    """From before it until shortly after the first empty sample, or now if there is none; in whole hours."""
    since, until = begin_of(incident.began_at - MARGIN, COARSE_S), now
    empty = next((at for at in emptied if incident.recovered_at and at >= incident.recovered_at), None)
    if empty is not None:
        until = empty + max(MARGIN, (empty - incident.began_at) / 10)
    return since, begin_of(until, COARSE_S) + timedelta(seconds=COARSE_S)
