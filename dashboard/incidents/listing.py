"""The list of incidents, newest first: what began one in the database, then each as its own page has it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery
from django.http import Http404

from dashboard.fleet.state.outages import AWAY, BACK, TURNS
from dashboard.incidents.finding import find
from dashboard.incidents.folding import Drain, Incident, drain
from dashboard.models import EntityHealth, FailoverEvent
from pipeline.months import Month


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the list. `incident`: None if its entity is deleted and no longer known, so that it has no page."""

    event: FailoverEvent
    incident: Incident | None = None
    progress: Drain | None = None
    lasted: timedelta = timedelta()


def beginnings() -> QuerySet[FailoverEvent]:
    """The events that began an incident: failovers of entities that were not failed over. With `back_at`."""
    same = FailoverEvent.objects.filter(pair=OuterRef("pair"), entity=OuterRef("entity"))
    before = same.filter(Q(time__lt=OuterRef("time")) | Q(time=OuterRef("time"), id__lt=OuterRef("id")))
    turn = before.filter(kind__in=TURNS).order_by("-time", "-id").values("kind")[:1]
    back = same.filter(kind__in=BACK, time__gte=OuterRef("time")).order_by("time", "id").values("time")[:1]
    found = FailoverEvent.objects.filter(kind__in=AWAY).annotate(turn_before=Subquery(turn), back_at=Subquery(back))
    return found.filter(Q(turn_before__isnull=True) | Q(turn_before__in=BACK))


def still_open(begun: QuerySet[FailoverEvent]) -> QuerySet[FailoverEvent]:
    """Those that are not over: the entity has not recovered, or its backlog was not seen to be empty since."""
    later = FailoverEvent.objects.filter(
        pair=OuterRef("pair"), entity=OuterRef("entity"), kind__in=AWAY, time__gt=OuterRef("back_at")
    )
    is_not_home = Q(waiting__gt=0) | Q(waiting_at__isnull=True) | Q(waiting_at__lt=OuterRef("back_at"))
    entity = EntityHealth.objects.filter(is_not_home, pair__name=OuterRef("pair"), path=OuterRef("entity"))
    return begun.filter(Q(back_at__isnull=True) | (Exists(entity) & ~Exists(later)))


def in_month(begun: QuerySet[FailoverEvent], month: str) -> QuerySet[FailoverEvent]:
    """Those of a month, by the time of the failover (UTC)."""
    meant = Month.parse(month)
    return begun.filter(time__gte=meant.start, time__lt=meant.end)


def months() -> list[str]:
    """The months with incidents, newest first."""
    found = FailoverEvent.objects.filter(kind__in=AWAY).order_by()
    return [f"{day:%Y-%m}" for day in found.dates("time", "month", order="DESC")]


def lines(events: Sequence[FailoverEvent], now: datetime) -> list[Line]:
    """The incidents that these events began, each with its depth and its end, as its page shows them."""
    return [_line(event, now) for event in events]


def _line(event: FailoverEvent, now: datetime) -> Line:
    try:
        _, incident, samples = find(event.pair, event.event_id)
    except Http404:
        return Line(event)
    lasted = incident.ended_at(now) - incident.began_at
    return Line(event, incident, drain(incident, samples, now), lasted)
