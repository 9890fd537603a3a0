"""Before an outage: readiness and drills."""

from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import Http404, HttpRequest
from django.utils import timezone
from ninja import Query, Router, Schema
from pydantic import Field

from dashboard.access.rights import Right, require
from dashboard.alerts.api.alerts import Why
from dashboard.api.fields import WHOLE, Body, Number, Reason, Word, pair_or_404
from dashboard.api.idempotency import Deed, Key, perform
from dashboard.api.paging import Cursor, Page, page
from dashboard.api.problems import PROBLEMS
from dashboard.drills import requests as wanting
from dashboard.drills.starting import begin, canary_of
from dashboard.models import Drill, PairReadiness, Readiness
from dashboard.readiness.boards import STATES, is_stale

router = Router(tags=["readiness and alerts"])


class Found(Schema):
    """One check: what was found, and what a person can do about it."""

    name: str
    verdict: str
    reason: str
    todo: str


class EntityReadiness(Schema):
    """How likely an entity's failover works, 0 to 100; null where nobody has looked lately."""

    pair: str
    entity: str
    score: int | None
    fell_at: datetime | None
    reasons: list[Found]
    checked_at: datetime


class SharedReadiness(Schema):
    """The checks that all entities of a pair share."""

    pair: str
    score: int | None
    checks: list[Found]
    checked_at: datetime | None


class ReadinessQuery(Cursor):
    """Which entities."""

    pair: Word = ""
    q: Word = ""
    state: Literal["", "ready", "weak", "endangered"] = ""


class DrillStory(Schema):
    """An exercise on a canary entity, and its report when it is over."""

    drill: int
    pair: str
    canary: str
    kind: Literal["queue", "session_queue", "topic"]
    by: str
    reason: str
    began_at: datetime
    ended_at: datetime | None
    step: str
    outcome: str | None
    detail: str
    report: dict[str, Any] | None


class StartDrill(Body):
    """On which queue or topic; empty: the marked one. One that is not marked takes its name in `typed`, too."""

    path: Word = ""
    messages: Annotated[int, Field(ge=wanting.LEAST, le=wanting.MOST), WHOLE] = wanting.USUAL
    reason: Reason
    typed: Word = ""
    creates: bool = False
    kind: Annotated[
        Literal["queue", "session_queue", "topic"], Field(description="As what a missing canary is made.")
    ] = "queue"


@router.get("/readiness", response={200: Page[EntityReadiness], **PROBLEMS}, operation_id="readiness")
def readiness(request: HttpRequest, query: Annotated[ReadinessQuery, Query()]) -> dict[str, Any]:
    """Whether failover would work, of each entity; the worst first."""
    rows, now = Readiness.objects.select_related("pair"), timezone.now()
    if query.pair:
        rows = rows.filter(pair=pair_or_404(query.pair))
    if query.q:
        rows = rows.filter(entity__icontains=query.q)
    if query.state:
        rows = rows.filter(STATES[query.state])
    return page(rows, ("score", "id"), query, lambda row: _ready(row, now))


@router.get("/pairs/{pair}/readiness", response={200: SharedReadiness, **PROBLEMS}, operation_id="pair_readiness")
def pair_readiness(request: HttpRequest, pair: str) -> dict[str, Any]:
    """The checks that all entities of the pair share."""
    row = PairReadiness.objects.filter(pair=pair_or_404(pair)).first()
    if row is None:
        return {"pair": pair, "score": None, "checks": [], "checked_at": None}
    score = None if is_stale(row.checked_at, timezone.now()) else row.score
    return {"pair": pair, "score": score, "checks": row.checks, "checked_at": row.checked_at}


@router.get("/drills", response={200: Page[DrillStory], **PROBLEMS}, operation_id="drills")
def drills(request: HttpRequest, query: Annotated[Cursor, Query()]) -> dict[str, Any]:
    """Drills, the newest first."""
    return page(Drill.objects.select_related("pair"), ("-at", "-id"), query, wanting.as_told)


@router.post("/pairs/{pair}/start-drill", response={200: Deed, **PROBLEMS}, operation_id="start_drill")
def start_drill(request: HttpRequest, pair: str, body: StartDrill, key: Key = "") -> dict[str, Any]:
    """Let a worker carry out a drill on a canary: fail it over, send, release, and bring home."""
    require(request.user, Right.OPERATE)
    row = pair_or_404(pair)
    path = body.path.strip() or canary_of(pair) or ""
    if not path:
        raise Http404(f"{pair} has no marked canary: name a queue or topic in `path`.")

    def deed(wish: Any) -> Any:
        return begin(wish, typed=body.typed, creates=body.creates, kind=body.kind, messages=body.messages)

    return perform(request, key, row, path, body.reason, deed)


@router.post("/drills/{drill}/abort", response={200: Deed, **PROBLEMS}, operation_id="abort_drill")
def abort_drill(request: HttpRequest, drill: Number, body: Why, key: Key = "") -> dict[str, Any]:
    """Call a drill off; a worker rolls it back within seconds."""
    require(request.user, Right.OPERATE)
    row = Drill.objects.select_related("pair").filter(pk=drill).first()
    if row is None:
        raise Http404("There is no such drill.")
    return perform(request, key, row.pair, row.path, body.reason, lambda wish: wanting.abort(wish, row))


def _ready(row: Readiness, now: datetime) -> dict[str, Any]:
    names = ("entity", "fell_at", "reasons", "checked_at")
    score = None if is_stale(row.checked_at, now) else row.score
    return {name: getattr(row, name) for name in names} | {"pair": row.pair.name, "score": score}
