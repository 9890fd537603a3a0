"""Failover events."""

from datetime import datetime
from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Field, Query, Router, Schema

from dashboard.api.fields import Word
from dashboard.api.paging import NEWEST_FIRST, Between, Page, page
from dashboard.api.schemas import EventKind
from dashboard.models import FailoverEvent

router = Router(tags=["records"])


class Event(Schema):
    """One event. `id` identifies it across redeliveries."""

    id: str = Field(validation_alias="event_id")
    time: datetime
    pair: str
    entity: str
    kind: EventKind
    reason: str
    process: str
    operator: str | None


class EventQuery(Between):
    """Filters of events. `entity` is a full path."""

    entity: Word = ""
    kind: Word = ""


@router.get("/events", response=Page[Event], operation_id="events")
def events(request: HttpRequest, query: Annotated[EventQuery, Query()]) -> dict[str, Any]:
    """Failover events, newest first."""
    rows = query.of(FailoverEvent.objects.all(), "time")
    given = {name: value for name in ("entity", "kind") if (value := getattr(query, name))}
    return page(rows.filter(**given), NEWEST_FIRST, query)
