"""The API of notifications: rules of alerts, channels, and deliveries."""

from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import Http404, HttpRequest
from ninja import Query, Router, Schema
from pydantic import Field

from dashboard.access.audited import ALL_PAIRS, ActionError, Outcome, Request
from dashboard.access.declaration import Action
from dashboard.access.rights import require
from dashboard.alerts import actions
from dashboard.alerts.actions import CHANGE_RULE, DELETE_RULE, MAKE_RULE, save_rule
from dashboard.alerts.forms import RuleForm
from dashboard.alerts.sending.config import channel_states
from dashboard.api.fields import WHOLE, Body, Number, Reason, Why, Word
from dashboard.api.idempotency import ActionResult, Key, perform
from dashboard.api.operations import operation
from dashboard.api.paging import Cursor, Page, page
from dashboard.models import AlertRule, Notice

router = Router(tags=["readiness and alerts"])
Kind = Literal[
    "failover", "forced_expiring", "backlog", "capacity", "stalled", "ledger", "dead_letters", "budget", "readiness",
    "workers", "usage",
]  # fmt: skip
Severity = Literal["info", "warning", "critical"]
Channel = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$", max_length=63)]
Pattern = Annotated[
    str, Field(min_length=1, pattern=r"^[^\x00]*\S[^\x00]*$", description="`*` stands for any characters.")
]


class RuleWanted(Body):
    """A complete rule; omitted fields get their defaults."""

    name: Annotated[str, Field(min_length=1, max_length=80, pattern=r"^[^\x00]*\S[^\x00]*$")]
    is_enabled: bool = True
    pair: Annotated[Pattern, Field(max_length=63)] = "*"
    entity: Annotated[Pattern, Field(max_length=300)] = "*"
    kinds: Annotated[list[Kind], Field(max_length=20, description="None: all.")] = Field(default_factory=list)
    least_severity: Severity = "info"
    threshold: Annotated[int, Field(ge=1, lt=2**63), WHOLE] | None = None
    channels: Annotated[list[Channel], Field(min_length=1, max_length=20)]
    notifies_resolved: bool = True
    reason: Reason


class RuleRecord(Schema):
    """Which channels are notified of which alerts."""

    id: int
    name: str
    is_enabled: bool
    pair: str
    entity: str
    kinds: list[str]
    least_severity: Severity
    threshold: int | None
    channels: list[str]
    notifies_resolved: bool
    changed_by: str
    changed_at: datetime


class RuleResult(ActionResult):
    """The result, and the number of the rule; null if it is deleted."""

    rule: int | None = None


class ChannelRecord(Schema):
    """A notification channel and its state. Its URL and secrets stay in environment variables."""

    channel: str
    kind: str
    state: Literal["works", "never used", "not ready", "failing", "disabled"]
    problem: str
    failing_since: datetime | None
    sent_at: datetime | None


class Channels(Schema):
    """The channels of CHANNELS_FILE, in file order; `problem` is why the file cannot be read."""

    items: list[ChannelRecord]
    problem: str = ""


class Delivery(Schema):
    """One message to one channel, and its result."""

    id: int
    channel: str
    phase: str
    alert_id: int | None
    pair: str
    state: str
    attempts: int
    status: int | None
    reason: str
    created_at: datetime
    due_at: datetime
    ended_at: datetime | None


class DeliveryQuery(Cursor):
    """Filters of deliveries."""

    channel: Word = ""
    state: Literal["", "waiting", "sent", "given_up"] = ""


@router.get("/alerts/rules", response=Page[RuleRecord], operation_id="alert_rules")
def rules(request: HttpRequest, query: Annotated[Cursor, Query()]) -> dict[str, Any]:
    """The alert rules, by name."""
    return page(AlertRule.objects.all(), ("name", "id"), query)


@router.get("/alerts/rules/{rule}", response=RuleRecord, operation_id="alert_rule")
def rule(request: HttpRequest, rule: Number) -> AlertRule:
    """One rule."""
    return _rule_or_404(rule)


@operation(router, MAKE_RULE, response=RuleResult)
def make_rule(request: HttpRequest, body: RuleWanted, key: Key = "") -> dict[str, Any]:
    return _save(request, MAKE_RULE, key, body, None)


@operation(router, CHANGE_RULE, response=RuleResult)
def change_rule(request: HttpRequest, rule: Number, body: RuleWanted, key: Key = "") -> dict[str, Any]:
    return _save(request, CHANGE_RULE, key, body, _rule_to_change(request, rule))


@operation(router, DELETE_RULE, response=RuleResult)
def delete_rule(request: HttpRequest, rule: Number, body: Why, key: Key = "") -> dict[str, Any]:
    def run(wanted: Request) -> Outcome:
        return actions.delete_rule(wanted, _rule_to_change(request, rule))

    return perform(request, key, ALL_PAIRS, "*", body.reason, run)


@router.get("/alerts/channels", response=Channels, operation_id="channels")
def channels(request: HttpRequest) -> dict[str, Any]:
    """The notification channels and their states."""
    items, problem = channel_states()
    return {"items": items, "problem": problem}


@router.get("/alerts/deliveries", response=Page[Delivery], operation_id="deliveries")
def deliveries(request: HttpRequest, query: Annotated[DeliveryQuery, Query()]) -> dict[str, Any]:
    """The messages sent and their results, newest first, including tests."""
    wanted = {name: value for name in ("channel", "state") if (value := getattr(query, name))}
    return page(Notice.objects.filter(**wanted), ("-created_at", "-id"), query)


def _save(request: HttpRequest, action: Action, key: str, body: RuleWanted, row: AlertRule | None) -> dict[str, Any]:
    """Save through the page's form, for the same validation and audit."""

    def run(wanted: Request) -> Outcome:
        known = tuple(one["channel"] for one in channel_states()[0])
        form = RuleForm(body.model_dump(exclude={"reason"}), instance=row, known=known)
        if not form.is_valid():
            require(request.user, action.right)  # of what is to be done, the audited path decides and records it
            name, errors = next(iter(form.errors.items()))
            raise ActionError(f"{name}: {errors[0]}")
        return save_rule(wanted, form.save(commit=False))

    answer = perform(request, key, ALL_PAIRS, "*", body.reason, run)
    saved = AlertRule.objects.filter(name=body.name.strip()).values_list("pk", flat=True).first()
    return {**answer, "rule": saved}


def _rule_or_404(number: int) -> AlertRule:
    row = AlertRule.objects.filter(pk=number).first()
    if row is None:
        raise Http404("No such rule; GET /api/v1/alerts/rules lists them.")
    return row


def _rule_to_change(request: HttpRequest, number: int) -> AlertRule:
    if not AlertRule.objects.filter(pk=number).exists():
        require(request.user, CHANGE_RULE.right)
    return _rule_or_404(number)
