"""Storing of the fleet's reports in the database. All functions can be repeated safely.

Redis holds the current state; the database holds history and the content of pages. A report can arrive twice, late, or
at two collectors at once: health is compared and set by version, events by id, samples by time. Call `announce_change`
of dashboard.site.redis after a batch, so that open pages are updated. Counts of messages are stored by
`message_counts.py`, the existence of entities by `entity_rows.py`.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from dashboard.fleet.state.entity_rows import entity_rows
from dashboard.models import EntityHealth, FailoverEvent, Heartbeat
from dashboard.models.records import GATEWAY
from dashboard.site.fitting import counted, fit, fitted, word
from pairing.events import Event
from pairing.fleet.presence import ReportedStates
from pairing.fleet.shared_health import PingRecord, SharedHealth

FEW = 20
"""Up to this many changes are written in one statement each; more are written in bulk."""


def apply_all_health(pair: str, reported: Iterable[SharedHealth]) -> int:
    """Store the health of entities of one pair where it is newer than the stored one. Returns their number.

    Unchanged entities need one query in total. Raises Pair.DoesNotExist for a pair that is not configured.
    """
    healths = list(reported)
    rows = entity_rows(pair, [health.path for health in healths])
    newer = [health for health in healths if rows[health.path].version < health.version]
    if not newer:
        return 0
    with transaction.atomic():
        if len(newer) > FEW:
            return _set_later({rows[health.path].pk: _health_columns(health) for health in newer}, by="version")
        return sum(
            EntityHealth.objects.filter(pk=rows[one.path].pk, version__lt=one.version).update(**_health_columns(one))
            for one in newer
        )


def _set_later(reported: Mapping[int, Mapping[str, Any]], by: str) -> int:
    """Set columns of entities by key where the new value of column `by` is later. Returns the number of updates.

    Uses the driver's bulk execution: ten thousand ORM statements take seconds.
    """
    fields = [one for one in EntityHealth._meta.concrete_fields if one.name in next(iter(reported.values()))]
    quoted, guard = connection.ops.quote_name, next(one for one in fields if one.name == by)
    table, sets = quoted(EntityHealth._meta.db_table), ", ".join(f"{quoted(str(one.column))} = %s" for one in fields)
    rows = []
    for entity, columns in reported.items():
        values = [one.get_db_prep_save(columns[one.name], connection) for one in fields]
        rows.append((*values, entity, guard.get_db_prep_save(columns[by], connection)))
    later = f"({quoted(by)} IS NULL OR {quoted(by)} < %s)"
    with connection.cursor() as cursor:
        cursor.executemany(f"UPDATE {table} SET {sets} WHERE id = %s AND {later}", rows)
        return int(cursor.rowcount)


def _health_columns(health: SharedHealth) -> dict[str, Any]:
    """The columns of an entity's health."""
    held_by = fitted(health.held_by, 150) if health.held_by and health.state == "failed_over" else None
    return {
        "state": health.state,
        "since": health.since,
        "reason": fitted(health.reason, None),
        "held_by": held_by,
        "expires": health.expires if held_by else None,
        "origin": "forced" if health.origin == "forced" else "organic",
        "version": health.version,
        "process": fitted(health.process, 300),
        "applied_at": timezone.now(),
    }


def record_events(events: Iterable[Event]) -> int:
    """Store events; existing ones are not changed. Returns the number of new ones."""
    rows = [
        FailoverEvent(
            event_id=event.id,
            time=event.time,
            pair=event.pair,
            entity=event.entity,
            kind=word(str(event.kind)),
            reason=event.reason,
            process=event.process,
            operator=event.operator,
        )
        for event in events
    ]
    texts = ("event_id", "pair", "entity", "reason", "process", "operator")
    facts = {row.event_id: row for row in (fit(row, texts) for row in rows)}
    with transaction.atomic():
        known = set(FailoverEvent.objects.filter(event_id__in=facts).values_list("event_id", flat=True))
        FailoverEvent.objects.bulk_create(
            (row for key, row in facts.items() if key not in known), ignore_conflicts=True
        )
    return len(facts) - len(known)


def record_pings(pair: str, pings: Mapping[str, PingRecord]) -> int:
    """Store the last pings of entities by path where they are later than the stored ones. Returns their number."""
    if not pings:
        return 0
    rows = entity_rows(pair, pings)
    later = {path: ping for path, ping in pings.items() if (last := rows[path].last_ping_at) is None or last < ping.at}
    if not later:
        return 0
    with transaction.atomic():
        return _set_later({rows[path].pk: _pinged(ping, rows[path]) for path, ping in later.items()}, by="last_ping_at")


def _pinged(ping: PingRecord, before: EntityHealth) -> dict[str, Any]:
    """The columns of a ping; the count restarts with each failover."""
    count = counted(ping.count)
    fresh = count - before.ping_count if count >= before.ping_count else count
    return {
        "last_ping_at": ping.at,
        "last_ping_accepted": ping.accepted,
        "last_ping_reason": fitted(ping.reason, None),
        "ping_count": count,
        "pings_ever": before.pings_ever + fresh,
        "next_ping_at": ping.next_due,
    }


def record_reported_states(pair: str, reported: ReportedStates) -> bool:
    """Store in how many sending processes a disputed entity is failed over. Returns whether anything changed."""
    entities = EntityHealth.objects.filter(pair__name=pair)
    disputed = {path: fitted(path, 260) for path in reported.disputes}
    changed = (
        entities.filter(processes__isnull=False)
        .exclude(path__in=disputed.values())
        .update(processes=None, failed_over_in=None)
    )
    for path, fits in disputed.items():
        numbers = {"processes": reported.processes, "failed_over_in": reported.failed_over_in(path)}
        changed += entities.filter(path=fits).exclude(**numbers).update(**numbers)
    return bool(changed)


def gateway_role(pair: str) -> str:
    """The role of a pair's gateways, as it is stored."""
    return fitted(f"{GATEWAY}{pair}", 60)


def record_heartbeat(process: str, role: str, at: datetime, problems: Mapping[str, str] | None = None) -> None:
    """Store the heartbeat of a process at `at` and its problems, by subject.

    Roles: `pings`, `syphons`, `collectors`, `beat`, one worker's list, or `gateway of <pair>`.
    """
    wrong = {fitted(what, 300): fitted(why, None) for what, why in (problems or {}).items()}
    reported = {"role": fitted(role, 60), "seen_at": at, "problems": wrong}
    Heartbeat.objects.update_or_create(process=fitted(process, 300), defaults=reported)
