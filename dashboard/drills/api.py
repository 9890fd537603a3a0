"""The API of drills and their reports, and the operations that start and abort one."""

from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import Http404, HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from dashboard.access.rights import require
from dashboard.api.fields import WHOLE, Body, Number, Reason, Why, Word, pair_or_404
from dashboard.api.idempotency import Key, perform
from dashboard.api.operations import operation
from dashboard.api.paging import Cursor, Page, page
from dashboard.drills import actions
from dashboard.drills.actions import ABORT_DRILL, LEAST, MOST, START_DRILL, USUAL, Wanted, as_json
from dashboard.drills.canary import canary_of
from dashboard.models import Drill

router = Router(tags=["readiness and alerts"])


class DrillStory(Schema):
    """A drill on a canary entity, and its report when it is over."""

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
    """The canary queue or topic; empty: the marked one. An unmarked one requires its name in `typed`."""

    path: Word = ""
    messages: Annotated[int, Field(ge=LEAST, le=MOST), WHOLE] = USUAL
    reason: Reason
    typed: Word = ""
    creates: bool = False
    kind: Annotated[
        Literal["queue", "session_queue", "topic"], Field(description="The type of a canary that is created.")
    ] = "queue"


@router.get("/drills", response=Page[DrillStory], operation_id="drills")
def drills(request: HttpRequest, query: Annotated[Cursor, Query()]) -> dict[str, Any]:
    """Drills, newest first."""
    return page(Drill.objects.select_related("pair"), ("-at", "-id"), query, as_json)


@operation(router, START_DRILL)
def start_drill(request: HttpRequest, pair: str, body: StartDrill, key: Key = "") -> dict[str, Any]:
    row = pair_or_404(pair)
    path = body.path.strip() or canary_of(pair) or ""
    if not path:
        require(request.user, START_DRILL.right)
        raise Http404(f"{pair} has no marked canary: name a queue or topic in `path`.")
    what = Wanted(body.typed, body.creates, body.kind, body.messages)
    return perform(request, key, row, path, body.reason, lambda wanted: actions.start_drill(wanted, what))


@operation(router, ABORT_DRILL)
def abort_drill(request: HttpRequest, drill: Number, body: Why, key: Key = "") -> dict[str, Any]:
    row = Drill.objects.select_related("pair").filter(pk=drill).first()
    if row is None:
        require(request.user, ABORT_DRILL.right)
        raise Http404("No such drill.")
    return perform(request, key, row.pair, row.path, body.reason, lambda wanted: actions.abort(wanted, row))
