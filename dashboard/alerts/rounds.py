"""The evaluation of all conditions: opens and resolves alerts and stores their notices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import chain

from django.db import transaction
from django.db.models import Q

from dashboard.alerts import notices
from dashboard.alerts.watching import conditions_now as watch
from dashboard.alerts.watching.changes import AT_ONCE, CHANGING, TEXTS, Changes, open_alerts, save
from dashboard.alerts.watching.conditions import compared, rank
from dashboard.alerts.watching.following import follow_failovers
from dashboard.fleet.state.primaries import PrimaryDown, primaries_down
from dashboard.models import Alert, AlertRound, AlertRule
from dashboard.models.alert import ANY
from dashboard.site.fitting import fit


def look(now: datetime) -> Changes:
    """Update the alerts to the current conditions, in one transaction; can be repeated safely.

    Concurrent evaluations wait for each other.
    """
    with transaction.atomic():
        AlertRound.objects.get_or_create(pk=1, defaults={"ran_at": now})
        AlertRound.objects.select_for_update().get(pk=1)
        rules = list(AlertRule.objects.filter(is_enabled=True))
        changes = Changes()
        primaries = primaries_down(now).values()
        follow_failovers(changes, primaries, now)
        _compare(changes, rules, primaries, now)
        notices.notify(changes, rules, now)
        AlertRound.objects.filter(pk=1).update(ran_at=now)
    return changes


def _compare(changes: Changes, rules: Sequence[AlertRule], primaries: Iterable[PrimaryDown], now: datetime) -> None:
    of_entities = Q(kind=Alert.Kind.FAILOVER) & ~Q(entity=ANY)
    known = {alert.key: alert for alert in open_alerts().exclude(of_entities)}
    current = chain(watch.down(primaries), watch.conditions(rules, known.keys(), now))
    fitting = (fit(condition, TEXTS) for condition in current)
    fresh, going_on, over = compared(fitting, known.keys())
    worse = [one for one in going_on if rank(one.severity) > rank(known[one.key].severity)]
    _ended([known[one.key] for one in worse], now)
    _open_all(changes, [*fresh, *worse], now)
    changes.resolved += _ended([known[key] for key in sorted(over)], now)
    _renew_all((alert, one) for one in going_on if (alert := known[one.key]).is_open)


def _renew_all(going_on: Iterable[tuple[Alert, Alert]]) -> None:
    """Update the text of open alerts to the current values, for example the number of dead letters."""
    altered = []
    for alert, condition in going_on:
        said = {name: getattr(condition, name) for name in CHANGING}
        if any(getattr(alert, name) != value for name, value in said.items()):
            for name, value in said.items():
                setattr(alert, name, value)
            altered.append(alert)
    save(altered, *CHANGING)


def _open_all(changes: Changes, fresh: Sequence[Alert], now: datetime) -> None:
    for alert in fresh:
        alert.began_at, alert.opened_at = min(alert.began_at, now), now
    changes.opened += Alert.objects.bulk_create(fresh, batch_size=AT_ONCE)


def _ended(over: Sequence[Alert], now: datetime) -> Sequence[Alert]:
    for alert in over:
        alert.ended_at = alert.resolved_at = now
    save(over, "ended_at", "resolved_at")
    return over
