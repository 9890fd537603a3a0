"""Incidents."""

from datetime import datetime
from typing import Annotated, Any

from django.http import Http404, HttpRequest
from ninja import Query, Router, Schema

from dashboard.api.fields import Word
from dashboard.api.paging import NEWEST_FIRST, Between, Page, page
from dashboard.api.problems import PROBLEMS
from dashboard.api.schemas import PaceLimit, Pause
from dashboard.fleet.outages import AWAY
from dashboard.incidents.document import document
from dashboard.incidents.finding import find
from dashboard.incidents.folding import Incident
from dashboard.models import FailoverEvent

router = Router(tags=["records"])
MOST_INCIDENTS = 50


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


class QueueLedger(Schema):
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
    ledgers: list[QueueLedger]
    depth: list[tuple[datetime, int]]


@router.get("/incidents", response={200: Page[IncidentSummary], **PROBLEMS}, operation_id="incidents")
def incidents(request: HttpRequest, query: Annotated[IncidentQuery, Query()]) -> dict[str, Any]:
    """Incidents, the newest first; at most 50 at a time."""
    rows = query.of(FailoverEvent.objects.filter(kind__in=AWAY), "time")
    rows = rows.filter(entity=query.entity) if query.entity else rows
    found = page(rows, NEWEST_FIRST, query, _summary, most=MOST_INCIDENTS)
    return {**found, "items": [one for one in found["items"] if one]}


@router.get("/incidents/{pair}/{event_id}", response={200: IncidentStory, **PROBLEMS}, operation_id="incident")
def incident(request: HttpRequest, pair: str, event_id: str) -> dict[str, Any]:
    """The incident that an event belongs to, from the first failure to the last message home."""
    if "\0" in pair + event_id:
        raise Http404
    return document(pair, event_id)


def _summary(row: FailoverEvent) -> Incident | None:
    """The incident that begins with this event; None where it happened within another, or the entity is gone."""
    try:
        _, found, _ = find(row.pair, row.event_id)
    except Http404:
        return None
    return found if found.id == row.event_id else None
