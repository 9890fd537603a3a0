"""The outbox: notices are stored in the transaction that creates them. delivery.py sends them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from dashboard.alerts.changes import AT_ONCE, Changes, open_alerts, parts
from dashboard.alerts.conditions import threshold_of
from dashboard.alerts.grouping import Group, Notification, grouped
from dashboard.alerts.rules import Due, Rule, Subject, matches, steps_due, when
from dashboard.models import Alert, Notice, NoticeItem

Phase = Notice.Phase
OVER = "It was over before quiet hours ended."
WORSE = "It became more severe before it was sent; another message reports that."


def subject(alert: Alert) -> Subject:
    """The fields that rules evaluate."""
    return Subject(
        kind=alert.kind,
        severity=alert.severity,
        pair=alert.pair,
        entity=alert.entity,
        threshold=threshold_of(alert.kind, alert.key),
    )


def notify(changes: Changes, rules: Sequence[Rule], now: datetime) -> None:
    """Store notices of opened and resolved alerts; notices of replaced alerts are dropped."""
    if changes.replaced:
        _drop(changes.replaced, now, Notice.open_ones(), WORSE)
    write(list(_of_opened(changes.opened, rules, now)), now)
    if changes.resolved:
        _drop(changes.resolved, now, Notice.open_ones().filter(is_quiet=True), OVER)
        write(list(_of_resolved(changes.resolved, rules, now)), now)


def _of_opened(alerts: Iterable[Alert], rules: Sequence[Rule], now: datetime) -> Iterator[Notification]:
    for alert in alerts:
        for rule in (rule for rule in rules if matches(rule, subject(alert))):
            due = when(rule, alert.severity, now)
            yield from (notification(alert, channel, rule, Phase.OPENED, due) for channel in rule.channels)


def _of_resolved(alerts: Sequence[Alert], rules: Sequence[Rule], now: datetime) -> Iterator[Notification]:
    """Notify those who were, or are about to be, notified of the start."""
    by_key = {rule.pk: rule for rule in rules}
    reported: dict[int, dict[str, int | None]] = defaultdict(dict)
    for items in _items(alerts):
        for alert_id, channel, rule in items.values_list("alert_id", "channel", "notice__rule_id"):
            reported[alert_id].setdefault(channel, rule)
    for alert in alerts:
        for channel, key in sorted(reported[alert.pk].items()):
            by = by_key.get(key or 0, Rule(pk=key or 0))
            if by.notifies_resolved:
                yield notification(alert, channel, by, Phase.RESOLVED, when(by, alert.severity, now))


def _drop(alerts: Sequence[Alert], now: datetime, unsent: QuerySet[Notice], reason: str) -> None:
    """Remove ended alerts from unsent messages, so that nobody is notified of them."""
    waiting = unsent.filter(message__isnull=True)
    if not waiting.exists():
        return
    for items in _items(alerts):
        put_off = waiting.filter(items__in=items)
        notices = list(put_off.select_for_update(of=("self",)).order_by("pk").values_list("pk", flat=True))
        items.filter(notice_id__in=notices).delete()
        empty = Notice.objects.filter(pk__in=notices).exclude(Exists(NoticeItem.objects.filter(notice=OuterRef("pk"))))
        empty.update(state=Notice.State.DROPPED, ended_at=now, reason=reason)


def _items(alerts: Sequence[Alert]) -> Iterator[QuerySet[NoticeItem]]:
    for keys in parts([alert.pk for alert in alerts]):
        yield NoticeItem.objects.filter(alert_id__in=keys).exclude(phase=Phase.RESOLVED)


def escalate(rules: Sequence[Rule], now: datetime) -> None:
    """Store notices of the next escalation of alerts that are not acknowledged."""
    stepped = [rule for rule in rules if rule.escalation]
    if not stepped:
        return
    alerts = list(_unacknowledged(stepped, now))
    gave_up, known, first = (
        (_gave_up(), _escalated(), _first_notified()) if alerts else ({}, set[tuple[int, str]](), {})
    )
    notifications = []
    for alert in alerts:
        about = subject(alert)
        for rule in (rule for rule in stepped if matches(rule, about)):
            if not first.get(alert.pk, set()) & {rule.pk, *rule.channels}:
                continue  # the rule is newer than the alert, so there is nothing to escalate
            due = steps_due(rule, alert.severity, alert.opened_at, gave_up.get(alert.pk, ()), now)
            fresh = [one for one in rule.escalation[:due] if (alert.pk, one) not in known]
            if fresh:
                at = when(rule, alert.severity, now)
                notifications += [notification(alert, channel, rule, Phase.ESCALATED, at) for channel in fresh]
    write(notifications, now)


def _unacknowledged(stepped: Sequence[Rule], now: datetime) -> QuerySet[Alert]:
    """Alerts with further escalations."""
    items = NoticeItem.objects.filter(alert=OuterRef("pk"))
    old = Q(opened_at__lte=now - min(rule.escalate_after for rule in stepped))
    old |= Q(Exists(items.filter(notice__state=Notice.State.GIVEN_UP)))
    everybody = {channel for rule in stepped for channel in rule.escalation}
    reported = items.filter(phase=Phase.ESCALATED, channel__in=everybody).values("alert")
    count = reported.annotate(count=Count("pk")).values("count")
    found = open_alerts().filter(old, acknowledged_at__isnull=True)
    return found.annotate(reported=Coalesce(Subquery(count), 0)).filter(reported__lt=len(everybody))


def _gave_up() -> dict[int, set[str]]:
    found: dict[int, set[str]] = defaultdict(set)
    rows = NoticeItem.objects.filter(alert__resolved_at__isnull=True, notice__state=Notice.State.GIVEN_UP)
    for alert, channel in rows.values_list("alert_id", "channel"):
        found[alert].add(channel)
    return found


def _first_notified() -> dict[int, set[int | str]]:
    """The rules and channels that reported the start of each open alert."""
    found: dict[int, set[int | str]] = defaultdict(set)
    rows = NoticeItem.objects.filter(alert__resolved_at__isnull=True, phase=Phase.OPENED)
    for alert, channel, rule in rows.values_list("alert_id", "channel", "notice__rule_id"):
        found[alert] |= {channel, rule or 0}
    return found


def _escalated() -> set[tuple[int, str]]:
    rows = NoticeItem.objects.filter(alert__resolved_at__isnull=True, phase=Phase.ESCALATED)
    return set(rows.values_list("alert_id", "channel"))


def write(notifications: Sequence[Notification], now: datetime) -> None:
    """Add to the outbox: to a message of the same group that is still open, otherwise to a new one."""
    for group, members in grouped(notifications).items():
        due = Due(min(one.due.at for one in members), is_quiet=group.is_quiet)
        notice = _gathering(group, due, now) or _fresh(group, due, now)
        items = [
            NoticeItem(notice=notice, alert_id=one.alert, channel=group.channel, phase=group.phase) for one in members
        ]
        NoticeItem.objects.bulk_create(items, batch_size=AT_ONCE, ignore_conflicts=True)


def notification(alert: Alert, channel: str, rule: Rule, phase: str, due: Due) -> Notification:
    """Add an alert to the messages of a channel."""
    group = Group(channel, rule.pk, alert.pair, alert.kind, phase, is_quiet=due.is_quiet)
    return Notification(alert.pk, group, due)


def _gathering(group: Group, due: Due, now: datetime) -> Notice | None:
    """An open message of the group. Its row is locked, so that it cannot be composed in the meantime."""
    found = Notice.open_ones().filter(
        channel=group.channel,
        rule_id=group.rule or None,
        pair=group.pair,
        kind=group.kind,
        phase=group.phase,
        is_quiet=group.is_quiet,
        message__isnull=True,
        due_at__gt=now,
        due_at__lte=due.at,
    )
    return found.select_for_update(of=("self",)).first()


def _fresh(group: Group, due: Due, now: datetime) -> Notice:
    return Notice.objects.create(
        channel=group.channel,
        rule_id=group.rule or None,
        pair=group.pair,
        kind=group.kind,
        phase=group.phase,
        is_quiet=group.is_quiet,
        created_at=now,
        due_at=due.at,
    )


def write_test(channel: str, person: str, now: datetime) -> Notice:
    """Add a test message that is due immediately."""
    return Notice.objects.create(channel=channel, phase=Phase.TEST, kind="test", created_at=now, due_at=now, by=person)
