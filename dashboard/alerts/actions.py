"""The declarations of the actions on alerts, rules and channels: permission-checked, audited, idempotent."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction

from dashboard.access import audited
from dashboard.access.audited import ActionError, Outcome, Person, done, unchanged
from dashboard.access.declaration import Action, Operation
from dashboard.access.rights import Right
from dashboard.alerts import notices
from dashboard.alerts.config import load_channels
from dashboard.models import Alert, AlertRule, AuditEntry, ChannelState

EVERYWHERE = "*"
"""The pair of actions that do not concern a single pair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The operator, the input and the time. Sending the same `request_id` twice is one action."""

    user: Person
    at: datetime
    request_id: str = ""
    reason: str = ""
    via: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertAction(Action):
    """An action that does not change the shared state of a pair. Its outcome has one sentence."""

    def perform(
        self, request: Request, pair: str, target: str, run: Callable[[], Outcome], *, is_limited: bool = False
    ) -> Outcome:
        """Execute the action on the audited path. `is_limited`: it changes only what the person sees."""
        entry = AuditEntry(
            request_id=request.request_id or uuid.uuid4().hex,
            at=request.at,
            operator=request.user.get_username(),
            via=request.via,
            verb=self.name,
            pair=pair,
            target=target,
            reason=request.reason,
        )
        return audited.carry_out(entry, request.user, run, right=self.right, is_limited=is_limited)


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgeAlert(AlertAction):
    """Acknowledges one or all open alerts: somebody takes care of them."""

    operation_of_all: Operation

    def run(self, request: Request, key: int) -> Outcome:
        """One alert."""

        alert = Alert.objects.filter(pk=key).first()

        def run() -> Outcome:
            if alert is None:
                raise ActionError("The alert no longer exists.")
            if _acknowledge(request, pk=key):
                return done("Acknowledged.")
            return unchanged("It was already acknowledged or over.")

        pair, target = (alert.pair, alert.key) if alert else (EVERYWHERE, f"alert {key}")
        return self.perform(request, pair, target, run, is_limited=alert is None)

    def run_on_all(self, request: Request, last: int | None = None) -> Outcome:
        """Acknowledge all open alerts that the person sees; those that began after alert `last` are not."""
        known = {} if last is None else {"pk__lte": last}

        def run() -> Outcome:
            count = _acknowledge(request, **known)
            return done(f"{count:,} acknowledged.") if count else unchanged("There were no alerts to acknowledge.")

        return self.perform(request, EVERYWHERE, "all open alerts", run, is_limited=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveRule(AlertAction):
    """Creates or changes a rule."""

    def run(self, request: Request, rule: AlertRule) -> Outcome:
        def run() -> Outcome:
            if rule.pk and not AlertRule.objects.select_for_update().filter(pk=rule.pk).exists():
                raise ActionError(f"Rule {rule.name} was deleted in the meantime. Create a new one.")
            rule.changed_by, rule.changed_at = request.user.get_username(), request.at
            try:
                with transaction.atomic():
                    rule.save()
            except IntegrityError:
                raise ActionError(f"A rule {rule.name} already exists.") from None
            return done(f"Rule {rule.name}: {describe(rule)}")

        return self.perform(request, rule.pair, rule.name, run)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRule(AlertAction):
    """Deletes a rule. Its messages in the outbox are still sent."""

    def run(self, request: Request, rule: AlertRule) -> Outcome:
        said = describe(rule)

        def run() -> Outcome:
            rule.delete()
            return done(f"Rule {rule.name} is deleted. It was: {said}")

        return self.perform(request, rule.pair, rule.name, run)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelAction(AlertAction):
    """An action on one channel. `choice` is its name in the URL."""

    choice: str
    change: Callable[[Request, str], Outcome]

    def run(self, request: Request, channel: str) -> Outcome:
        return self.perform(request, EVERYWHERE, channel, lambda: self.change(request, channel))


def _acknowledge(request: Request, **which: int) -> int:
    mine = Alert.objects.filter(resolved_at__isnull=True, acknowledged_at__isnull=True, **which)
    return mine.update(acknowledged_at=request.at, acknowledged_by=request.user.get_username())


def _try_channel(request: Request, channel: str) -> Outcome:
    if channel not in load_channels():
        raise ActionError(f"CHANNELS_FILE has no channel {channel}.")
    notices.write_test(channel, request.user.get_username(), request.at)
    return done(f"A test message to {channel} is queued. Its result appears under Deliveries.")


def _enable_channel(_: Request, channel: str) -> Outcome:
    disabled = ChannelState.objects.filter(channel=channel, disabled_at__isnull=False)
    if disabled.update(disabled_at=None, failing_since=None, reason=""):
        return done(f"{channel} is used again.")
    return unchanged(f"{channel} was already in use.")


def describe(rule: AlertRule) -> str:
    """A rule in one sentence, for the audit trail."""
    names: dict[str, Any] = {
        field.name: getattr(rule, field.name)
        for field in AlertRule._meta.concrete_fields
        if field.name not in ("id", "name", "changed_by", "changed_at")
    }
    return ", ".join(f"{name} {value}" for name, value in names.items() if value not in (None, "", []))


ACKNOWLEDGE_ALERT = AcknowledgeAlert(
    name="acknowledge_alert",
    label="Acknowledge alert",
    operation=Operation(
        "/alerts/{alert}/acknowledge",
        "acknowledge_alert",
        "Acknowledge an open alert: somebody takes care of it.",
        "Acknowledge",
    ),
    operation_of_all=Operation(
        "/alerts/acknowledge-all", "acknowledge_alerts", "Acknowledge all open alerts.", "Acknowledge All"
    ),
)
TRY_CHANNEL = ChannelAction(
    name="try_alert_channel",
    label="Test alert channel",
    operation=Operation("/alerts/channels/{channel}/try", "try_channel", "Send a test message through a channel."),
    choice="test",
    change=_try_channel,
)
ENABLE_CHANNEL = ChannelAction(
    name="enable_alert_channel",
    label="Enable alert channel",
    right=Right.ADMINISTER,
    operation=Operation(
        "/alerts/channels/{channel}/enable",
        "enable_channel",
        "Enable a channel that was disabled because its target was gone.",
    ),
    choice="enable",
    change=_enable_channel,
)
CHANNEL_ACTIONS = (TRY_CHANNEL, ENABLE_CHANNEL)
MAKE_RULE = SaveRule(
    name="make_alert_rule",
    label="Create alert rule",
    undo="Delete alert rule",
    right=Right.ADMINISTER,
    operation=Operation("/alerts/rules", "make_alert_rule", "Create a rule.", "Make Rule"),
)
CHANGE_RULE = SaveRule(
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
DELETE_RULE = DeleteRule(
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
ACTIONS = (ACKNOWLEDGE_ALERT, *CHANNEL_ACTIONS, MAKE_RULE, CHANGE_RULE, DELETE_RULE)


def save_rule(request: Request, rule: AlertRule) -> Outcome:
    """Create a new rule, or change an existing one."""
    return (CHANGE_RULE if rule.pk else MAKE_RULE).run(request, rule)
