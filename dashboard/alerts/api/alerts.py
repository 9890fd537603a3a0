"""During an outage: alerts, and what people do about them and their channels."""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router, Schema

from dashboard.access.rights import Right, require
from dashboard.alerts import actions as alert_deeds
from dashboard.api.authentication import via
from dashboard.api.fields import Number, Path, Word
from dashboard.api.idempotency import Deed, Key, identity
from dashboard.api.paging import Cursor, Page, page
from dashboard.api.problems import PROBLEMS
from dashboard.api.schemas import Why
from dashboard.models import Alert

router = Router(tags=["readiness and alerts"])


class AlertTold(Schema):
    """One condition, from when it began until it was over."""

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
    """Which alerts."""

    pair: Word = ""
    state: Literal["open", "over", "all"] = "open"


@router.get("/alerts", response={200: Page[AlertTold], **PROBLEMS}, operation_id="alerts")
def alerts(request: HttpRequest, query: Annotated[AlertQuery, Query()]) -> dict[str, Any]:
    """Alerts, the newest first: those that are open, that are over, or all."""
    rows = Alert.objects.all()
    if query.state != "all":
        rows = rows.filter(resolved_at__isnull=query.state == "open")
    if query.pair:
        rows = rows.filter(pair=query.pair)
    names = tuple(AlertTold.model_fields)
    return page(rows, ("-opened_at", "-id"), query, lambda row: {name: getattr(row, name) for name in names})


@router.post("/alerts/{alert}/acknowledge", response={200: Deed, **PROBLEMS}, operation_id="acknowledge_alert")
def acknowledge(request: HttpRequest, alert: Number, body: Why, key: Key = "") -> dict[str, Any]:
    """Say that somebody looks after an open alert: nobody further is told."""
    return told(request, key, body.reason, Right.OPERATE, lambda wish: alert_deeds.acknowledge(wish, alert))


@router.post("/alerts/acknowledge-all", response={200: Deed, **PROBLEMS}, operation_id="acknowledge_alerts")
def acknowledge_all(request: HttpRequest, body: Why, key: Key = "") -> dict[str, Any]:
    """The same for all that are open."""
    return told(request, key, body.reason, Right.OPERATE, alert_deeds.acknowledge_all)


@router.post("/alerts/channels/{channel}/try", response={200: Deed, **PROBLEMS}, operation_id="try_channel")
def try_channel(request: HttpRequest, channel: Path, body: Why, key: Key = "") -> dict[str, Any]:
    """Send a test through a channel."""
    return told(request, key, body.reason, Right.OPERATE, lambda wish: alert_deeds.try_channel(wish, channel))


@router.post("/alerts/channels/{channel}/enable", response={200: Deed, **PROBLEMS}, operation_id="enable_channel")
def enable_channel(request: HttpRequest, channel: Path, body: Why, key: Key = "") -> dict[str, Any]:
    """Use a channel again that said it is gone for good."""
    return told(request, key, body.reason, Right.ADMINISTER, lambda wish: alert_deeds.enable_channel(wish, channel))


def told(
    request: HttpRequest, key: str, reason: str, right: Right, deed: Callable[[alert_deeds.Wish], str]
) -> dict[str, Any]:
    """Do it once, on the audited path of alerts."""
    require(request.user, right)
    request_id, earlier = identity(request, key)
    if earlier:
        return {"outcome": earlier.outcome, "sentence": earlier.detail, "is_repeated": True}
    wish = alert_deeds.Wish(
        user=request.user, at=timezone.now(), request_id=request_id, reason=reason, via=via(request)[:80]
    )
    return {"outcome": "done", "sentence": deed(wish)}
