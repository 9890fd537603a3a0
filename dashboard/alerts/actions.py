"""The actions on alerts, their rules and their channels, declared. Permission-checked, audited, done once."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction

from dashboard.access import audited
from dashboard.access.audited import ActionError, Person
from dashboard.access.audited import done as outcome_done
from dashboard.access.declaration import Action, Command, Operation
from dashboard.access.rights import Right
from dashboard.alerts import notices
from dashboard.alerts.config import load_channels
from dashboard.models import Alert, AlertRule, AuditEntry, ChannelState

EVERYWHERE = "*"
"""The pair of what concerns no single one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Who asks for what, and when. The same `request_id` sent twice is one action."""

    user: Person
    at: datetime
    request_id: str = ""
    reason: str = ""
    via: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertAction(Action):
    """An action that is about no pair's shared state. Its answer is one sentence."""

    def perform(self, request: Request, pair: str, target: str, run: Callable[[], str]) -> str:
        """Carry it out on the audited path."""
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
        return audited.carry_out(entry, request.user, lambda: outcome_done(run()), right=self.right).sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgeAlert(AlertAction):
    """Says that somebody looks after an open alert, or all of them: nobody further is notified."""

    operation_of_all: Operation

    def run(self, request: Request, key: int) -> str:
        """One alert."""

        def run() -> str:
            return "Acknowledged: nobody further is told." if _acknowledge(request, pk=key) else ACKNOWLEDGED

        alert = Alert.objects.filter(pk=key).first()
        if alert is None:
            raise ActionError("There is no such alert any more.")
        return self.perform(request, alert.pair, alert.key, run)

    def run_on_all(self, request: Request) -> str:
        """All that are open."""

        def run() -> str:
            count = _acknowledge(request)
            return f"{count:,} acknowledged." if count else "There was none to acknowledge."

        return self.perform(request, EVERYWHERE, "all open alerts", run)


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveRule(AlertAction):
    """Makes a rule, or changes it."""

    def run(self, request: Request, rule: AlertRule) -> str:
        def run() -> str:
            if rule.pk and not AlertRule.objects.select_for_update().filter(pk=rule.pk).exists():
                raise ActionError(f"Rule {rule.name} was deleted meanwhile, so nothing was saved. Make a new one.")
            rule.changed_by, rule.changed_at = request.user.get_username(), request.at
            try:
                with transaction.atomic():
                    rule.save()
            except IntegrityError:
                raise ActionError(f"There is a rule {rule.name} already.") from None
            return f"Rule {rule.name}: {describe(rule)}"

        return self.perform(request, rule.pair, rule.name, run)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRule(AlertAction):
    """Takes a rule away. What it has put into the outbox is still sent."""

    def run(self, request: Request, rule: AlertRule) -> str:
        said = describe(rule)

        def run() -> str:
            rule.delete()
            return f"Rule {rule.name} is gone. It was: {said}"

        return self.perform(request, rule.pair, rule.name, run)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelAction(AlertAction):
    """An action on one channel. `choice` is what the page's address calls it."""

    choice: str
    change: Callable[[Request, str], str]

    def run(self, request: Request, channel: str) -> str:
        return self.perform(request, EVERYWHERE, channel, lambda: self.change(request, channel))


ACKNOWLEDGED = "It was acknowledged or over already."


def _acknowledge(request: Request, **which: int) -> int:
    mine = Alert.objects.filter(resolved_at__isnull=True, acknowledged_at__isnull=True, **which)
    return mine.update(acknowledged_at=request.at, acknowledged_by=request.user.get_username())


def _try_channel(request: Request, channel: str) -> str:
    if channel not in load_channels():
        raise ActionError(f"CHANNELS_FILE has no channel {channel}.")
    notices.write_test(channel, request.user.get_username(), request.at)
    return f"A test is on its way to {channel}. What came of it is under Deliveries."


def _enable_channel(_: Request, channel: str) -> str:
    disabled = ChannelState.objects.filter(channel=channel, disabled_at__isnull=False)
    if disabled.update(disabled_at=None, failing_since=None, reason=""):
        return f"{channel} is used again."
    return f"{channel} was in use already."


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
    command=Command("acknowledge", "say that you look after an alert: nobody further is told"),
    operation=Operation(
        "/alerts/{alert}/acknowledge",
        "acknowledge_alert",
        "Say that somebody looks after an open alert: nobody further is told.",
        "Acknowledge",
    ),
    operation_of_all=Operation(
        "/alerts/acknowledge-all", "acknowledge_alerts", "The same for all that are open.", "Acknowledge All"
    ),
)
TRY_CHANNEL = ChannelAction(
    name="try_alert_channel",
    label="Try alert channel",
    command=Command("try-channel", "send a test through a channel"),
    operation=Operation("/alerts/channels/{channel}/try", "try_channel", "Send a test through a channel."),
    choice="test",
    change=_try_channel,
)
ENABLE_CHANNEL = ChannelAction(
    name="enable_alert_channel",
    label="Enable alert channel",
    right=Right.ADMINISTER,
    command=Command("enable-channel", "use a channel again that said it is gone for good"),
    operation=Operation(
        "/alerts/channels/{channel}/enable",
        "enable_channel",
        "Use a channel again that said it is gone for good.",
    ),
    choice="enable",
    change=_enable_channel,
)
CHANNEL_ACTIONS = (TRY_CHANNEL, ENABLE_CHANNEL)
MAKE_RULE = SaveRule(
    name="make_alert_rule",
    label="Make alert rule",
    undo="Delete alert rule",
    right=Right.ADMINISTER,
    operation=Operation("/alerts/rules", "make_alert_rule", "Make a rule.", "Make Rule"),
)
CHANGE_RULE = SaveRule(
    name="change_alert_rule",
    label="Change alert rule",
    right=Right.ADMINISTER,
    operation=Operation(
        "/alerts/rules/{rule}/change",
        "change_alert_rule",
        "Put a rule in the place of another; what is left out is as in a new one.",
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
        "Take a rule away. What it has put into the outbox is still sent.",
        "Delete Rule",
    ),
)
ACTIONS = (ACKNOWLEDGE_ALERT, *CHANNEL_ACTIONS, MAKE_RULE, CHANGE_RULE, DELETE_RULE)


def save_rule(request: Request, rule: AlertRule) -> str:
    """Make a rule that is new, change one that is not."""
    return (CHANGE_RULE if rule.pk else MAKE_RULE).run(request, rule)
