"""Alerts of failovers, which follow the events and the state of an entity."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from django.db.models import Max

from dashboard.alerts.watching.changes import AT_ONCE, TEXTS, Changes, open_alerts, parts, save
from dashboard.alerts.watching.conditions import key_of
from dashboard.alerts.watching.failovers import Began, Ended, follow
from dashboard.fleet.state.outages import TURNS
from dashboard.fleet.state.primaries import PrimaryDown
from dashboard.models import Alert, EntityHealth, FailoverEvent
from dashboard.models.alert import ANY
from dashboard.site.fitting import fit, fitted

KEY, MOST_EVENTS = 420, 5_000
Where = tuple[str, str]


def follow_failovers(changes: Changes, primaries: Iterable[PrimaryDown], now: datetime) -> None:
    """Open and resolve alerts of failovers, and mark the events as processed. Call in a transaction.

    Entities whose state matches their alerts need only two columns.
    """
    unheard = FailoverEvent.objects.filter(alerted_at__isnull=True)
    events = list(unheard.filter(kind__in=TURNS).order_by("time", "pk")[:MOST_EVENTS])
    reported, away = defaultdict[str, list[FailoverEvent]](list), _away()
    for event in events:
        reported[_failover_key(event.pair, event.entity)].append(event)
    replaced = {_failover_key(one.pair, path) for one in primaries for path in one.paths}
    reporting = {key: (own[0].pair, own[0].entity) for key, own in reported.items()}
    known = set(open_alerts().filter(kind=Alert.Kind.FAILOVER).exclude(entity=ANY).values_list("key", flat=True))
    keys = sorted((reported.keys() | (known ^ away.keys())) - replaced)
    open_ones, ended = _open_ones(keys, known), _last_ends([key for key in keys if key not in known])
    wheres = {key: (alert.pair, alert.entity) for key, alert in open_ones.items()} | reporting | away
    states = _states({key: wheres[key] for key in keys})
    for key in keys:
        alert, where = open_ones.get(key), wheres[key]
        steps = follow(alert.began_at if alert else None, ended.get(key), reported[key], states.get(key), now)
        _take(changes, steps, alert, key, where, now)
    for alert in _open_ones(sorted(replaced), known).values():  # of each primary there is one alert
        alert.ended_at = alert.resolved_at = now
        changes.resolved.append(alert)
    _write(changes)
    for part in parts([event.pk for event in events]):
        FailoverEvent.objects.filter(pk__in=part).update(alerted_at=now)
    unheard.exclude(kind__in=TURNS).update(alerted_at=now)


def _take(
    changes: Changes, steps: Iterable[Began | Ended], alert: Alert | None, key: str, where: Where, now: datetime
) -> None:
    for step in steps:
        if isinstance(step, Began):
            alert = _failover(key, *where, step, now)
            changes.opened.append(alert)
        elif alert is not None:
            alert.ended_at, alert.resolved_at = step.at, now
            changes.resolved.append(alert)


def _write(changes: Changes) -> None:
    """A failover that started and ended between two evaluations is one row with both times.

    The ends come first: an entity that came back and failed over again in between has two alerts, and only one of them
    may be open.
    """
    fresh = {id(alert) for alert in changes.opened}
    save([alert for alert in changes.resolved if id(alert) not in fresh], "ended_at", "resolved_at")
    Alert.objects.bulk_create(changes.opened, batch_size=AT_ONCE)


def _away() -> dict[str, Where]:
    """The entities that are failed over, by the key of their alert."""
    rows = EntityHealth.objects.filter(state="failed_over").order_by().values_list("pair__name", "path")
    return {_failover_key(pair, path): (pair, path) for pair, path in rows}


def _open_ones(keys: Iterable[str], known: Collection[str]) -> dict[str, Alert]:
    found: dict[str, Alert] = {}
    for part in parts([key for key in keys if key in known]):
        found |= {alert.key: alert for alert in open_alerts().filter(key__in=part)}
    return found


def _states(wheres: Mapping[str, Where]) -> dict[str, EntityHealth]:
    """The entities with a known state, by the key of their alert."""
    keys = {where: key for key, where in wheres.items()}
    found: dict[str, EntityHealth] = {}
    for part in parts(sorted({path for _, path in keys})):
        for row in EntityHealth.objects.filter(path__in=part).exclude(state="unknown").select_related("pair"):
            if key := keys.get((row.pair.name, row.path)):
                found[key] = row
    return found


def _last_ends(keys: Sequence[str]) -> Mapping[str, datetime]:
    found: dict[str, datetime] = {}
    for part in parts(keys):
        rows = Alert.objects.filter(key__in=part, resolved_at__isnull=False).order_by()
        found |= dict(rows.values_list("key").annotate(ended=Max("ended_at")))
    return found


def _failover_key(pair: str, entity: str) -> str:
    return fitted(key_of("failover", pair, entity), KEY)


def _failover(key: str, pair: str, entity: str, step: Began, now: datetime) -> Alert:
    alert = Alert(
        key=key,
        kind="failover",
        severity="warning" if step.by else "critical",
        pair=pair,
        entity=entity,
        title=f"{entity} was failed over by {step.by}" if step.by else f"{entity} failed over",
        detail=step.reason,
        began_at=min(step.at, now),
        opened_at=now,
    )
    return fit(alert, TEXTS)
