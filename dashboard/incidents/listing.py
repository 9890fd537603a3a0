"""The list of incidents, newest first: what began one in the database, then each as its own page has it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery

from dashboard.fleet.state.event_lines import plain_cause
from dashboard.fleet.state.outages import AWAY, BACK, TURNS
from dashboard.incidents.finding import Found, found_of
from dashboard.incidents.folding import Incident, drain
from dashboard.models import EntityHealth, FailoverEvent
from dashboard.site.charts import Point
from pipeline.months import Month

MOST_OF_ENTITY = 20
AT_ONCE = timedelta(minutes=5)
"""Entities of a pair that fail so shortly after each other for the same cause are one incident."""


@dataclass(frozen=True, slots=True)
class Line:
    """One incident of the list: the entities of a pair that failed at once for one cause, the last one first.

    `found`: of those that are known; an entity that is deleted has no page.
    """

    event: FailoverEvent
    found: Sequence[Found]
    now: datetime

    @property
    def worst(self) -> Incident | None:
        """The one whose state it has."""
        incidents = (one.incident for one in self.found)
        return min(incidents, key=lambda one: (one.is_over, one.status.rank), default=None)

    @property
    def lasted(self) -> timedelta:
        """From the first failure until the last entity is drained, or now."""
        ended = (one.incident.ended_at(self.now) for one in self.found)
        began = (one.incident.began_at for one in self.found)
        return max(ended, default=self.event.time) - min(began, default=self.event.time)

    @property
    def peak(self) -> int:
        """The most messages that waited, of each entity by itself."""
        return sum(drain(one.incident, one.samples, self.now).peak for one in self.found)


def beginnings() -> QuerySet[FailoverEvent]:
    """The events that began an incident: failovers of entities that were not failed over. With `back_at`; a drill is
    none.
    """
    same = FailoverEvent.objects.filter(pair=OuterRef("pair"), entity=OuterRef("entity"))
    before = same.filter(Q(time__lt=OuterRef("time")) | Q(time=OuterRef("time"), id__lt=OuterRef("id")))
    turn = before.filter(kind__in=TURNS).order_by("-time", "-id").values("kind")[:1]
    back = same.filter(kind__in=BACK, time__gte=OuterRef("time")).order_by("time", "id").values("time")[:1]
    real = FailoverEvent.objects.exclude(EntityHealth.objects.of_drills().seen_in())
    found = real.filter(kind__in=AWAY).annotate(turn_before=Subquery(turn), back_at=Subquery(back))
    return found.filter(Q(turn_before__isnull=True) | Q(turn_before__in=BACK))


def of_entity(entity: EntityHealth, points: Sequence[Point], now: datetime) -> dict[str, Any]:
    """The newest incidents for an entity's page, and the estimated remaining time of the last one's drain, from depths
    of the last hour.
    """
    begun = beginnings().filter(pair=entity.pair.name, entity=entity.path).order_by("-time", "-id")
    found = [line for line in lines(list(begun[:MOST_OF_ENTITY]), now) if line.found]
    return {"incidents": found, "left": drain(found[0].found[0].incident, points, now).left if found else None}


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
    """The incidents that these events began, newest first, as their pages show them."""
    found, groups, newest = found_of(events, now), list[list[FailoverEvent]](), dict[object, list[FailoverEvent]]()
    for event in events:
        key = event.pair, plain_cause(event.reason) or event.reason, event.operator
        group = newest.get(key, [])
        is_new = event.entity not in {one.entity for one in group}
        if group and is_new and group[-1].time - event.time <= AT_ONCE:
            group.append(event)
        else:
            newest[key] = [event]
            groups.append(newest[key])
    return [Line(group[-1], [found[one.event_id] for one in group if one.event_id in found], now) for group in groups]
