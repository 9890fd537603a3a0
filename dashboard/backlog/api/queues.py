"""Backlog queues, orphans and dead letters, and the jobs of workers on them."""

from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import Http404, HttpRequest
from ninja import Field, Query, Router, Schema

from dashboard.api.fields import Number, Path, Word, pair_or_404
from dashboard.api.paging import Cursor, Page, page
from dashboard.backlog import browsing
from dashboard.backlog.browsing import Wanted
from dashboard.backlog.places import place
from dashboard.fleet.pairs.namespaces import namespace
from dashboard.models import BacklogQueue, DeadLetterJob, QueueDeletion, QueueDrain, SyphonPause
from dashboard.models.cleanup import Errand

router = Router(tags=["backlog"])


class Queue(Schema):
    """A backlog queue at its last sample. `deviations`: expected and actual value by property."""

    pair: str
    path: str
    active: int
    scheduled: int
    dead_lettered: int
    transfer: int
    transfer_dead_lettered: int
    size_bytes: int
    max_size_bytes: int
    share_full: float
    status: str
    is_orphan: bool
    deviations: dict[str, list[Any]]
    paused_by: str | None
    created_at: datetime | None
    accessed_at: datetime | None
    seen_at: datetime


class QueueQuery(Cursor):
    """Filters of backlog queues."""

    pair: Word = ""
    show: Literal["all", "orphans", "dead-letters", "deviating"] = "all"


class MessageQuery(Schema):
    """Filters of the messages or dead letters of one backlog queue. `after`: the sequence number to continue at.

    Queues of the primary and `<topic>/Subscriptions/<name>` list dead letters only.
    """

    queue: Path
    show: Literal["waiting", "dead"] = "waiting"
    q: Word = ""
    entity: Word = ""
    session: Word = ""
    older_min: Annotated[int, Query(ge=0, le=10_000_000)] = 0
    larger_kb: Annotated[int, Query(ge=0, le=200_000)] = 0
    after: Number = 0


class Message(Schema):
    """The properties of a message, without its body."""

    sequence_number: int = Field(validation_alias="number")
    message_id: str
    entity: str
    session: str
    subject: str
    enqueued_at: datetime | None
    size_bytes: int = Field(validation_alias="size")
    deliveries: int
    dead_letter_reason: str = Field(validation_alias="reason")
    dead_letter_description: str = Field(validation_alias="about")


class Messages(Schema):
    """Up to 50 messages. `after`: the sequence number to continue at; null at the end."""

    items: list[Message]
    scanned: int
    after: int | None


class Job(Schema):
    """A job of workers on one backlog queue. `left`: the remaining messages, if they are counted."""

    kind: Literal["resubmit", "discard", "drain", "delete"]
    path: str
    by: str
    reason: str
    at: datetime
    ended_at: datetime | None
    detail: str
    stage: str
    done: int
    failed: int
    total: int


@router.get("/backlog", response=Page[Queue], operation_id="backlog")
def backlog(request: HttpRequest, query: Annotated[QueueQuery, Query()]) -> dict[str, Any]:
    """Backlog queues: all, orphans, those with dead letters, or deviating ones."""
    rows = BacklogQueue.objects.filter(is_gone=False).select_related("pair")
    if query.pair:
        rows = rows.filter(pair=pair_or_404(query.pair))
    match query.show:
        case "orphans":
            rows = rows.filter(is_orphan=True)
        case "dead-letters":
            rows = rows.filter(dead_lettered__gt=0)
        case "deviating":
            rows = rows.exclude(deviations={})
    pauses = {(pause.pair_id, pause.queue): pause.by for pause in SyphonPause.objects.all()}
    return page(rows, ("path", "id"), query, lambda row: _queue(row, pauses))


@router.get("/pairs/{pair}/messages", response=Messages, operation_id="messages")
def messages(request: HttpRequest, pair: str, query: Annotated[MessageQuery, Query()]) -> dict[str, Any]:
    """Messages or dead letters of one backlog queue, or dead letters of an entity, peeked without changes."""
    row = pair_or_404(pair)
    at = place(row, query.queue)
    if at is None or (at.role == "primary" and query.show != "dead"):
        raise Http404(f"{pair} has no such backlog queue.")
    wanted = Wanted.read(query.dict())
    with namespace(pair, at.role) as here:
        found = browsing.scan(here, query.queue, wanted, dead=query.show == "dead", after=query.after)
    return {"items": found.messages, "scanned": found.scanned, "after": found.goes_on_at}


@router.get("/pairs/{pair}/jobs", response=list[Job], operation_id="jobs")
def jobs(request: HttpRequest, pair: str) -> list[dict[str, Any]]:
    """Current and recent jobs of workers on dead letters and orphans of the pair, newest first."""
    row = pair_or_404(pair)
    kinds = (DeadLetterJob, QueueDrain, QueueDeletion)
    found = [job for kind in kinds for job in kind._default_manager.filter(pair=row).order_by("-at")[:50]]
    return [_job(job) for job in sorted(found, key=lambda job: job.at, reverse=True)]


def _queue(row: BacklogQueue, pauses: dict[tuple[int, str], str]) -> dict[str, Any]:
    known = {name: getattr(row, name) for name in Queue.model_fields if name not in ("pair", "paused_by")}
    paused = pauses.get((row.pair_id, row.path)) or pauses.get((row.pair_id, "*"))
    return known | {"pair": row.pair.name, "paused_by": paused}


def _job(row: Errand) -> dict[str, Any]:
    names = ("path", "by", "reason", "at", "ended_at", "detail")
    known = {name: getattr(row, name) for name in names} | {"stage": "", "done": 0, "failed": 0, "total": 0}
    match row:
        case DeadLetterJob():
            return known | {"kind": row.kind, "done": row.done, "failed": row.failed, "total": row.total}
        case QueueDrain():
            return known | {"kind": "drain", "done": row.moved, "total": row.moved + row.waiting}
        case QueueDeletion():
            return known | {"kind": "delete", "stage": row.stage, "total": row.messages}
    raise TypeError(row)
