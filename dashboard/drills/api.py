"""Drills: their reports, and the requests to start or abort one."""

from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import Http404, HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from dashboard.access.rights import Right, require
from dashboard.api.fields import WHOLE, Body, Number, Reason, Word, pair_or_404
from dashboard.api.idempotency import Deed, Key, perform
from dashboard.api.paging import Cursor, Page, page
from dashboard.api.problems import PROBLEMS
from dashboard.api.schemas import Why
from dashboard.drills import requests as wanting
from dashboard.drills.starting import begin, canary_of
from dashboard.models import Drill

router = Router(tags=["readiness and alerts"])


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
