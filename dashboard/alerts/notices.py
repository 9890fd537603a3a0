"""The outbox: notices are stored in the transaction that changes their alert. delivery.py sends them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from dashboard.alerts.watching.changes import AT_ONCE, Changes, parts
from dashboard.alerts.watching.conditions import matches
from dashboard.models import Alert, AlertRule, Notice

Phase = Notice.Phase


def notify(changes: Changes, rules: Sequence[AlertRule], now: datetime) -> None:
    """Store notices of opened alerts, and of resolved ones for the channels that were notified of the start."""
    _store(list(_of_opened(changes.opened, rules, now)))
    _store(list(_of_resolved(changes.resolved, now)))


def _store(notices: Sequence[Notice]) -> None:
    Notice.objects.bulk_create(notices, batch_size=AT_ONCE)


def channels_of(alert: Alert, rules: Iterable[AlertRule]) -> dict[str, bool]:
    """The channels that the rules name for an alert, and whether they are notified of its end. Pure."""
    found: dict[str, bool] = {}
    for rule in rules:
        if matches(rule, alert):
            found |= {name: found.get(name, False) or rule.notifies_resolved for name in rule.channels}
    return found


def _of_opened(alerts: Iterable[Alert], rules: Sequence[AlertRule], now: datetime) -> Iterator[Notice]:
    for alert in alerts:
        for channel, notifies_resolved in channels_of(alert, rules).items():
            yield _notice(alert, channel, Phase.OPENED, now, notifies_resolved=notifies_resolved)


def _of_resolved(alerts: Sequence[Alert], now: datetime) -> Iterator[Notice]:
    by_key = {alert.pk: alert for alert in alerts}
    for keys in parts(list(by_key)):
        opened = Notice.objects.filter(alert_id__in=keys, phase=Phase.OPENED, notifies_resolved=True).order_by("pk")
        for alert, channel in opened.values_list("alert_id", "channel"):
            yield _notice(by_key[alert], channel, Phase.RESOLVED, now)


def _notice(alert: Alert, channel: str, phase: str, now: datetime, **more: bool) -> Notice:
    return Notice(alert=alert, pair=alert.pair, channel=channel, phase=phase, created_at=now, due_at=now, **more)


def write_test(channel: str, person: str, now: datetime) -> Notice:
    """Add a test message that is due immediately."""
    return Notice.objects.create(channel=channel, phase=Phase.TEST, created_at=now, due_at=now, by=person)
