"""The API of alerts, and the operations on alerts and channels."""

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Query, Router, Schema

from dashboard.access.audited import ALL_PAIRS, Outcome, Request
from dashboard.access.declaration import Action
from dashboard.alerts import actions
from dashboard.alerts.actions import ACKNOWLEDGE_ALERT, ACKNOWLEDGE_ALERTS
from dashboard.api.fields import Number, Path, Why, Word
from dashboard.api.idempotency import Key, perform
from dashboard.api.operations import operation
from dashboard.api.paging import Cursor, Page, page
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


@router.get("/alerts", response=Page[AlertRecord], operation_id="alerts")
def alerts(request: HttpRequest, query: Annotated[AlertQuery, Query()]) -> dict[str, Any]:
    """Alerts, newest first: open ones, closed ones, or all."""
    rows = Alert.objects.all()
    if query.state != "all":
        rows = rows.filter(resolved_at__isnull=query.state == "open")
    if query.pair:
        rows = rows.filter(pair=query.pair)
    return page(rows, ("-opened_at", "-id"), query)


@operation(router, ACKNOWLEDGE_ALERT)
def acknowledge(request: HttpRequest, alert: Number, body: Why, key: Key = "") -> dict[str, Any]:
    return perform(request, key, ALL_PAIRS, "*", body.reason, lambda wanted: actions.acknowledge(wanted, alert))


@operation(router, ACKNOWLEDGE_ALERTS)
def acknowledge_all(request: HttpRequest, body: Why, key: Key = "") -> dict[str, Any]:
    return perform(request, key, ALL_PAIRS, "*", body.reason, actions.acknowledge_all)


def _add(action: Action, run: Callable[[Request], Outcome]) -> None:
    @operation(router, action)
    def on_channel(request: HttpRequest, channel: Path, body: Why, key: Key = "") -> dict[str, Any]:
        return perform(request, key, ALL_PAIRS, channel, body.reason, run)


for _action, _run in actions.ON_CHANNEL.values():
    _add(_action, _run)
