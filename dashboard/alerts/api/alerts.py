"""The API of alerts, and the operations on alerts and channels."""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router, Schema

from dashboard.access.audited import Outcome
from dashboard.alerts.actions import ACKNOWLEDGE_ALERT, CHANNEL_ACTIONS, AlertAction, ChannelAction
from dashboard.alerts.actions import Request as AlertRequest
from dashboard.api.authentication import via
from dashboard.api.fields import Number, Path, Why, Word
from dashboard.api.idempotency import Key, identity
from dashboard.api.operations import operation
from dashboard.api.paging import Cursor, Page, page
from dashboard.api.problems import PROBLEMS
from dashboard.models import Alert

router = Router(tags=["readiness and alerts"])


class AlertRecord(Schema):
    """One condition, from its start to its end."""

    id: int
    kind: str
    severity: Literal["info", "warning", "critical"]
    pair: str
    entity: str
    title: str
    detail: str
    began_at: datetime
    ended_at: datetime | None
    acknowledged_at: datetime | None
    acknowledged_by: str


class AlertQuery(Cursor):
    """Filters of alerts."""

    pair: Word = ""
    state: Literal["open", "over", "all"] = "open"


@router.get("/alerts", response={200: Page[AlertRecord], **PROBLEMS}, operation_id="alerts")
def alerts(request: HttpRequest, query: Annotated[AlertQuery, Query()]) -> dict[str, Any]:
    """Alerts, newest first: open ones, closed ones, or all."""
    rows = Alert.objects.all()
    if query.state != "all":
        rows = rows.filter(resolved_at__isnull=query.state == "open")
    if query.pair:
        rows = rows.filter(pair=query.pair)
    names = tuple(AlertRecord.model_fields)
    return page(rows, ("-opened_at", "-id"), query, lambda row: {name: getattr(row, name) for name in names})


def perform(
    request: HttpRequest, action: AlertAction, key: str, reason: str, run: Callable[[AlertRequest], Outcome]
) -> dict[str, Any]:
    """Execute the action once, on the audited path of alerts."""
    request_id, earlier = identity(request, key)
    if earlier:
        return {"outcome": earlier.outcome, "sentence": earlier.detail, "is_repeated": True}
    wanted = AlertRequest(
        user=request.user, at=timezone.now(), request_id=request_id, reason=reason, via=via(request)[:80]
    )
    outcome = run(wanted)
    return {"outcome": outcome.outcome, "sentence": outcome.sentence}


@operation(router, ACKNOWLEDGE_ALERT)
def acknowledge(request: HttpRequest, alert: Number, body: Why, key: Key = "") -> dict[str, Any]:
    return perform(request, ACKNOWLEDGE_ALERT, key, body.reason, lambda wanted: ACKNOWLEDGE_ALERT.run(wanted, alert))


@operation(router, ACKNOWLEDGE_ALERT, at=ACKNOWLEDGE_ALERT.operation_of_all)
def acknowledge_all(request: HttpRequest, body: Why, key: Key = "") -> dict[str, Any]:
    return perform(request, ACKNOWLEDGE_ALERT, key, body.reason, ACKNOWLEDGE_ALERT.run_on_all)


def _add(action: ChannelAction) -> None:
    @operation(router, action)
    def on_channel(request: HttpRequest, channel: Path, body: Why, key: Key = "") -> dict[str, Any]:
        return perform(request, action, key, body.reason, lambda wanted: action.run(wanted, channel))


for _action in CHANNEL_ACTIONS:
    _add(_action)
