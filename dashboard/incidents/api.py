"""Incidents."""

from datetime import datetime
from typing import Annotated, Any

from django.http import Http404, HttpRequest
from django.utils import timezone
from ninja import Query, Router, Schema
from pydantic import Field

from dashboard.api.fields import Word
from dashboard.api.paging import NEWEST_FIRST, Between, Page, page
from dashboard.api.schemas import EventKind, PaceLimit, Pause, pace_limits
from dashboard.fleet.state.paces import limits
from dashboard.fleet.state.status import Status
from dashboard.incidents.finding import found_of
from dashboard.incidents.listing import beginnings
from dashboard.incidents.moved import Moved
from dashboard.incidents.story import Story, pause_of, story

router = Router(tags=["records"])
MOST_INCIDENTS = 50


class IncidentQuery(Between):
    """Filters of incidents by the time of the failover."""

    entity: Word = ""


class IncidentSummary(Schema):
    """One outage of one entity, `healthy` once it is over. `drained_at`: when its backlog was seen to be empty."""

    id: str
    pair: str
    entity: str
    status: Status
    reason: str
    forced_by: str | None
    began_at: datetime
    failed_over_at: datetime
    recovered_at: datetime | None
    drained_at: datetime | None


class IncidentEvent(Schema):
    time: datetime
    kind: EventKind
    reason: str
    process: str
    operator: str | None


class IncidentAction(Schema):
    time: datetime = Field(validation_alias="at")
    operator: str
    verb: str
    target: str
    reason: str
    outcome: str


class IncidentPings(Schema):
    """The pings of one failover."""

    count: int
    last_at: datetime | None
    accepted: bool | None
    reason: str


class QueueLedger(Schema):
    """The messages of one backlog queue by fate. `enqueued`: those that its syphon has seen, until it is drained."""

    queue: str
    began_at: datetime
    ended_at: datetime | None
    enqueued: int
    fates: dict[str, int]
    missing: int | None


class IncidentStory(IncidentSummary):
    """The content of the incident's page."""

    lasted_s: float
    peak_messages: int
    waiting_messages: int
    drain_rate_per_s: float | None
    events: list[IncidentEvent]
    actions: list[IncidentAction]
    pings: IncidentPings
    pause: Pause | None
    paces: list[PaceLimit]
    moved: Moved | None
    ledgers: list[QueueLedger]
    cost: dict[str, Any] | None
    depth: list[tuple[datetime, int]]


@router.get("/incidents", response=Page[IncidentSummary], operation_id="incidents")
def incidents(request: HttpRequest, query: Annotated[IncidentQuery, Query()]) -> dict[str, Any]:
    """Incidents, newest first; at most 50 per page."""
    rows = query.of(beginnings(), "time")
    rows = rows.filter(entity=query.entity) if query.entity else rows
    answer = page(rows, NEWEST_FIRST, query, most=MOST_INCIDENTS)
    found = found_of(answer["items"], timezone.now())
    return {**answer, "items": [one.incident for key, one in found.items() if one.incident.id == key]}


@router.get("/incidents/{pair}/{event_id}", response=IncidentStory, operation_id="incident")
def incident(request: HttpRequest, pair: str, event_id: str) -> dict[str, Any]:
    """The incident that an event belongs to, from the first failure to the last drained message."""
    if "\0" in pair + event_id:
        raise Http404
    return document(story(pair, event_id))


def document(found: Story) -> dict[str, Any]:
    """The values of `IncidentStory`, some of them as rows of the database."""
    incident = found.incident
    is_draining = incident.recovered_at is not None and not incident.is_over
    paces = limits(incident.pair, incident.entity) if is_draining else []
    return {
        **{name: getattr(incident, name) for name in IncidentSummary.model_fields},
        "lasted_s": found.lasted.total_seconds(),
        "peak_messages": found.drain.peak,
        "waiting_messages": found.drain.waiting,
        "drain_rate_per_s": found.drain.rate,
        "events": incident.events,
        "actions": found.actions,
        "pings": found.pings,
        "pause": pause_of(found.entity) if is_draining else None,
        "paces": pace_limits(paces),
        "moved": found.moved,
        "ledgers": found.ledgers,
        "cost": found.cost.as_json() if found.cost else None,
        "depth": [(at, waiting) for at, waiting in found.samples if at <= found.ended_at],
    }
