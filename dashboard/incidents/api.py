"""What happened: events, incidents, and what operators did."""

from datetime import datetime
from typing import Annotated, Any

from django.db.models import QuerySet
from django.http import Http404, HttpRequest
from ninja import Query, Router, Schema

from dashboard.api.fields import Instant, Word
from dashboard.api.paging import Cursor, Page, page
from dashboard.api.problems import PROBLEMS
from dashboard.fleet.api.health import PaceLimit, Pause
from dashboard.incidents import views as stories
from dashboard.incidents.folding import BEGINNINGS, Incident
from dashboard.models import AuditEntry, FailoverEvent

router = Router(tags=["records"])
NEWEST_FIRST = ("-time", "-id")
MOST_INCIDENTS = 50


class Event(Schema):
    """One fact, told once. `id` is its identity across redelivery."""

    id: str
    time: datetime
    pair: str
    entity: str
    kind: str
    reason: str
    process: str
    operator: str | None


class Between(Cursor):
    """Which records: of a pair, from `since` on, and before `until`."""

    pair: Word = ""
    since: Instant | None = None
    until: Instant | None = None

    def of(self, rows: QuerySet[Any], column: str) -> QuerySet[Any]:
        lookups = {"pair": self.pair, f"{column}__gte": self.since, f"{column}__lt": self.until}
        return rows.filter(**{name: value for name, value in lookups.items() if value})


class EventQuery(Between):
    """Which events. `entity` is a whole path."""

    entity: Word = ""
    kind: Word = ""


class IncidentQuery(Between):
    """Which incidents: those that failed over in that time."""

    entity: Word = ""


class IncidentSummary(Schema):
    """One outage of one entity. `drained_at`: its backlog was seen to be home."""

    id: str
    pair: str
    entity: str
    reason: str
    forced_by: str | None
    began_at: datetime
    failed_over_at: datetime
    recovered_at: datetime | None
    drained_at: datetime | None


class IncidentEvent(Schema):
    time: datetime
    kind: str
    reason: str
    process: str
    operator: str | None


class IncidentAction(Schema):
    time: datetime
    operator: str
    verb: str
    target: str
    reason: str
    outcome: str


class IncidentPings(Schema):
    """Those of one failover. Of an entity only the pings of its latest failover are kept."""

    count: int
    last_at: datetime | None
    accepted: bool | None
    reason: str


class Books(Schema):
    """What was put into one backlog queue, and what became of it."""

    queue: str
    began_at: datetime
    ended_at: datetime | None
    enqueued: int
    fates: dict[str, int]
    missing: int | None


class IncidentStory(IncidentSummary):
    """Everything that the incident's page tells."""

    lasted_s: float
    peak_messages: int
    waiting_messages: int
    drain_rate_per_s: float | None
    events: list[IncidentEvent]
    actions: list[IncidentAction]
    pings: IncidentPings | None
    pause: Pause | None
    paces: list[PaceLimit]
    ledgers: list[Books]
    depth: list[tuple[datetime, int]]


class AuditRecord(Schema):
    """What one person did. An empty `outcome`: nobody saw its end."""

    at: datetime
    operator: str
    via: str
    verb: str
    pair: str
    target: str
    reason: str
    outcome: str
    detail: str


class DeedQuery(Between):
    """Which deeds."""

    operator: Word = ""


@router.get("/events", response={200: Page[Event], **PROBLEMS}, operation_id="events")
def events(request: HttpRequest, query: Annotated[EventQuery, Query()]) -> dict[str, Any]:
    """Failover events, the newest first."""
    rows = query.of(FailoverEvent.objects.all(), "time")
    given = {name: value for name in ("entity", "kind") if (value := getattr(query, name))}
    return page(rows.filter(**given), NEWEST_FIRST, query, _event)


@router.get("/incidents", response={200: Page[IncidentSummary], **PROBLEMS}, operation_id="incidents")
def incidents(request: HttpRequest, query: Annotated[IncidentQuery, Query()]) -> dict[str, Any]:
    """Incidents, the newest first; at most 50 at a time."""
    rows = query.of(FailoverEvent.objects.filter(kind__in=BEGINNINGS), "time")
    rows = rows.filter(entity=query.entity) if query.entity else rows
    found = page(rows, NEWEST_FIRST, query, _summary, most=MOST_INCIDENTS)
    return {**found, "items": [one for one in found["items"] if one]}


@router.get("/incidents/{pair}/{event_id}", response={200: IncidentStory, **PROBLEMS}, operation_id="incident")
def incident(request: HttpRequest, pair: str, event_id: str) -> dict[str, Any]:
    """The incident that an event belongs to, from the first failure to the last message home."""
    if "\0" in pair + event_id:
        raise Http404
    return stories.told(pair, event_id)


@router.get("/audit", response={200: Page[AuditRecord], **PROBLEMS}, operation_id="audit")
def audit(request: HttpRequest, query: Annotated[DeedQuery, Query()]) -> dict[str, Any]:
    """What operators did, the newest first."""
    rows = query.of(AuditEntry.objects.all(), "at")
    rows = rows.filter(operator=query.operator) if query.operator else rows
    return page(
        rows, ("-at", "-id"), query, lambda row: {name: getattr(row, name) for name in AuditRecord.model_fields}
    )


def _event(row: FailoverEvent) -> dict[str, Any]:
    names = ("time", "pair", "entity", "kind", "reason", "process", "operator")
    return {"id": row.event_id} | {name: getattr(row, name) for name in names}


def _summary(row: FailoverEvent) -> Incident | None:
    """The incident that begins with this event; None where it happened within another, or the entity is gone."""
    try:
        _, found, _ = stories.find(row.pair, row.event_id)
    except Http404:
        return None
    return found if found.id == row.event_id else None
