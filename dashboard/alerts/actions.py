"""What people do about alerts: acknowledge them, change rules, try channels. Permission-checked, audited, done once."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import IntegrityError, transaction

from dashboard.access.idempotency import admit
from dashboard.access.rights import Refused, Right, require
from dashboard.actions.control import ControlError, earlier
from dashboard.alerts import notices
from dashboard.alerts.config import load_channels
from dashboard.models import Alert, AlertRule, AuditEntry, ChannelState
from dashboard.site.redis import announce_change

Person = AbstractBaseUser | AnonymousUser
MOST_ACKNOWLEDGED = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Who wants what when. The same `request_id` sent twice is one deed."""

    user: Person
    at: datetime
    request_id: str = ""
    reason: str = ""
    via: str = ""


def acknowledge(wish: Wish, key: int) -> str:
    """Say that somebody looks after an open alert: it is told to nobody further."""

    def deed() -> str:
        mine = Alert.objects.filter(pk=key, resolved_at__isnull=True, acknowledged_at__isnull=True)
        if mine.update(acknowledged_at=wish.at, acknowledged_by=wish.user.get_username()):
            return "Acknowledged: nobody further is told."
        return "It was acknowledged or over already."

    alert = Alert.objects.filter(pk=key).first()
    if alert is None:
        raise ControlError("There is no such alert any more.")
    return _audited(wish, "acknowledge_alert", alert.pair, alert.key, Right.OPERATE, deed)


def acknowledge_all(wish: Wish) -> str:
    """The same for all that are open."""

    def deed() -> str:
        mine = Alert.objects.filter(resolved_at__isnull=True, acknowledged_at__isnull=True)
        count = mine.update(acknowledged_at=wish.at, acknowledged_by=wish.user.get_username())
        return f"{count:,} acknowledged." if count else "There was none to acknowledge."

    return _audited(wish, "acknowledge_alert", "*", "all open alerts", Right.OPERATE, deed)


def save_rule(wish: Wish, rule: AlertRule) -> str:
    """Make a rule, or change it."""
    verb = "change_alert_rule" if rule.pk else "make_alert_rule"

    def deed() -> str:
        if rule.pk and not AlertRule.objects.select_for_update().filter(pk=rule.pk).exists():
            raise ControlError(f"Rule {rule.name} was deleted meanwhile, so nothing was saved. Make a new one.")
        rule.changed_by, rule.changed_at = wish.user.get_username(), wish.at
        try:
            with transaction.atomic():
                rule.save()
        except IntegrityError:
            raise ControlError(f"There is a rule {rule.name} already.") from None
        return f"Rule {rule.name}: {told(rule)}"

    return _audited(wish, verb, rule.pair, rule.name, Right.ADMINISTER, deed)


def delete_rule(wish: Wish, rule: AlertRule) -> str:
    """Take a rule away. What it has put into the outbox is still sent."""

    def deed() -> str:
        rule.delete()
        return f"Rule {rule.name} is gone. It was: {said}"

    said = told(rule)
    return _audited(wish, "delete_alert_rule", rule.pair, rule.name, Right.ADMINISTER, deed)


def try_channel(wish: Wish, channel: str) -> str:
    """Send a test through a channel."""

    def deed() -> str:
        if channel not in load_channels():
            raise ControlError(f"CHANNELS_FILE has no channel {channel}.")
        notices.write_test(channel, wish.user.get_username(), wish.at)
        return f"A test is on its way to {channel}. What came of it is under Deliveries."

    return _audited(wish, "try_alert_channel", "*", channel, Right.OPERATE, deed)


def enable_channel(wish: Wish, channel: str) -> str:
    """Use a channel again that said it is gone for good."""

    def deed() -> str:
        disabled = ChannelState.objects.filter(channel=channel, disabled_at__isnull=False)
        if disabled.update(disabled_at=None, failing_since=None, reason=""):
            return f"{channel} is used again."
        return f"{channel} was in use already."

    return _audited(wish, "enable_alert_channel", "*", channel, Right.ADMINISTER, deed)


def told(rule: AlertRule) -> str:
    """A rule in one sentence, for the trail."""
    names: dict[str, Any] = {
        field.name: getattr(rule, field.name)
        for field in AlertRule._meta.concrete_fields
        if field.name not in ("id", "name", "changed_by", "changed_at")
    }
    return ", ".join(f"{name} {value}" for name, value in names.items() if value not in (None, "", []))


def _audited(wish: Wish, verb: str, pair: str, target: str, right: Right, deed: Callable[[], str]) -> str:
    """Written down before it is done; what came of it is written with it."""
    entry = AuditEntry(
        request_id=wish.request_id or uuid.uuid4().hex,
        at=wish.at,
        operator=wish.user.get_username(),
        via=wish.via,
        verb=verb,
        pair=pair,
        target=target,
        reason=wish.reason,
    )
    if known := admit(entry):
        return earlier(known).sentence
    try:
        require(wish.user, right)
        with transaction.atomic():
            sentence = deed()
            AuditEntry.complete(entry.request_id, "done", sentence)
    except Refused as refusal:
        AuditEntry.complete(entry.request_id, "refused", str(refusal))
        raise
    except ControlError as error:
        AuditEntry.complete(entry.request_id, "failed", str(error))
        raise
    announce_change()
    return sentence
