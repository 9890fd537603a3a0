"""The actions on alerts, rules and channels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from django.db import IntegrityError, transaction

from dashboard.access.audited import ActionError, Outcome, Request, done, unchanged
from dashboard.access.declaration import Action, Operation
from dashboard.access.rights import Right
from dashboard.alerts import notices
from dashboard.alerts.sending.config import load_channels
from dashboard.models import Alert, AlertRule, ChannelState, Pair, Severity
from dashboard.models.alert import ANY

ACKNOWLEDGE_ALERT = Action(
    name="acknowledge_alert",
    label="Acknowledge alert",
    is_limited=True,
    operation=Operation(
        "/alerts/{alert}/acknowledge",
        "acknowledge_alert",
        "Acknowledge an open alert: somebody takes care of it.",
        "Acknowledge",
    ),
)
ACKNOWLEDGE_ALERTS = Action(
    name="acknowledge_alerts",
    label="Acknowledge all alerts",
    is_limited=True,
    operation=Operation(
        "/alerts/acknowledge-all", "acknowledge_alerts", "Acknowledge all open alerts.", "Acknowledge All"
    ),
)
TRY_CHANNEL = Action(
    name="try_alert_channel",
    label="Test alert channel",
    operation=Operation("/alerts/channels/{channel}/try", "try_channel", "Send a test message through a channel."),
)
ENABLE_CHANNEL = Action(
    name="enable_alert_channel",
    label="Enable alert channel",
    right=Right.ADMINISTER,
    operation=Operation(
        "/alerts/channels/{channel}/enable",
        "enable_channel",
        "Enable a channel that was disabled because its target was gone.",
    ),
)
MAKE_RULE = Action(
    name="make_alert_rule",
    label="Create alert rule",
    undo="Delete alert rule",
    right=Right.ADMINISTER,
    operation=Operation("/alerts/rules", "make_alert_rule", "Create a rule.", "Make Rule"),
)
CHANGE_RULE = Action(
    name="change_alert_rule",
    label="Change alert rule",
    right=Right.ADMINISTER,
    operation=Operation(
        "/alerts/rules/{rule}/change",
        "change_alert_rule",
        "Replace a rule; omitted fields get their defaults.",
        "Change Rule",
    ),
)
DELETE_RULE = Action(
    name="delete_alert_rule",
    label="Delete alert rule",
    right=Right.ADMINISTER,
    operation=Operation(
        "/alerts/rules/{rule}/delete",
        "delete_alert_rule",
        "Delete a rule. Its messages in the outbox are still sent.",
        "Delete Rule",
    ),
)
ACTIONS = (ACKNOWLEDGE_ALERT, ACKNOWLEDGE_ALERTS, TRY_CHANNEL, ENABLE_CHANNEL, MAKE_RULE, CHANGE_RULE, DELETE_RULE)


def acknowledge(request: Request, key: int) -> Outcome:
    """Acknowledge one alert that the person sees."""
    alert = Alert.objects.filter(pk=key).first()
    pair, target = (alert.pair, alert.key) if alert else (request.pair.name, f"alert {key}")

    def run() -> Outcome:
        if alert is None:
            raise ActionError("The alert no longer exists.")
        if _acknowledge(request, pk=key):
            return done("Acknowledged.")
        return unchanged("It was already acknowledged or over.")

    return ACKNOWLEDGE_ALERT.execute(replace(request, pair=Pair(name=pair), target=target), run)


@ACKNOWLEDGE_ALERTS.audited
def acknowledge_all(request: Request, last: int | None = None) -> Outcome:
    """Acknowledge all open alerts that the person sees; those that began after alert `last` are not."""
    known = {} if last is None else {"pk__lte": last}
    count = _acknowledge(request, **known)
    return done(f"{count:,} acknowledged.") if count else unchanged("There were no alerts to acknowledge.")


def _acknowledge(request: Request, **which: int) -> int:
    mine = Alert.objects.filter(resolved_at__isnull=True, acknowledged_at__isnull=True, **which)
    return mine.update(acknowledged_at=request.at, acknowledged_by=request.operator)


@TRY_CHANNEL.audited
def try_channel(request: Request) -> Outcome:
    """Send a test message through the channel that is the request's target."""
    if request.target not in load_channels():
        raise ActionError(f"CHANNELS_FILE has no channel {request.target}.")
    notices.write_test(request.target, request.operator, request.at)
    return done(f"A test message to {request.target} is queued. Its result appears under Deliveries.")


@ENABLE_CHANNEL.audited
def enable_channel(request: Request) -> Outcome:
    """Use the channel that is the request's target again."""
    disabled = ChannelState.objects.filter(channel=request.target, disabled_at__isnull=False)
    if disabled.update(disabled_at=None, failing_since=None, reason=""):
        return done(f"{request.target} is used again.")
    return unchanged(f"{request.target} was already in use.")


ON_CHANNEL: Mapping[str, tuple[Action, Callable[[Request], Outcome]]] = {
    "test": (TRY_CHANNEL, try_channel),
    "enable": (ENABLE_CHANNEL, enable_channel),
}
"""The actions on a channel and their executions, by their names in addresses of pages."""


def save_rule(request: Request, rule: AlertRule) -> Outcome:
    """Create a new rule, or change an existing one."""

    def run() -> Outcome:
        if rule.pk and not AlertRule.objects.select_for_update().filter(pk=rule.pk).exists():
            raise ActionError(f"Rule {rule.name} was deleted in the meantime. Create a new one.")
        rule.changed_by, rule.changed_at = request.operator, request.at
        try:
            with transaction.atomic():
                rule.save()
        except IntegrityError:
            raise ActionError(f"A rule {rule.name} already exists.") from None
        return done(f"Rule {rule.name} is saved. {describe(rule)}")

    action = CHANGE_RULE if rule.pk else MAKE_RULE
    return action.execute(replace(request, pair=Pair(name=rule.pair), target=rule.name), run)


def delete_rule(request: Request, rule: AlertRule) -> Outcome:
    """Delete a rule. Its messages in the outbox are still sent."""
    description = describe(rule)

    def run() -> Outcome:
        rule.delete()
        return done(f"Rule {rule.name} is deleted. It was: {description}")

    return DELETE_RULE.execute(replace(request, pair=Pair(name=rule.pair), target=rule.name), run)


def describe(rule: AlertRule) -> str:
    """A rule in one sentence, for pages and the audit trail."""
    kinds = ", ".join(Alert.Kind(kind).label for kind in rule.kinds) or "every alert"
    entity = "every entity" if rule.entity == ANY else rule.entity
    pair = "every pair" if rule.pair == ANY else rule.pair
    severity = "" if rule.least_severity == Severity.INFO else f" from severity {rule.least_severity}"
    backlog = f", and of a backlog of at least {rule.threshold:,} messages" if rule.threshold is not None else ""
    end = ", and when it is over" if rule.notifies_resolved else ""
    off = "" if rule.is_enabled else " It is off, and notifies nobody."
    return f"Notifies {', '.join(rule.channels)} of {kinds} about {entity} of {pair}{severity}{backlog}{end}.{off}"
