"""Storing of the fleet's reports in the database. All functions can be repeated safely.

Redis holds the current state; the database holds history and the content of pages. A report can arrive twice, late, or
at two collectors at once: health is compared and set by version, events by id, samples by time. Call `announce_change`
of dashboard.site.redis after a batch, so that open pages are updated.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, Protocol

from django.db import connection, transaction
from django.db.models import Q
from django.utils import timezone

from dashboard.models import (
    BacklogQueue,
    DepthSample,
    EntityHealth,
    FailoverEvent,
    Heartbeat,
    Pair,
    PairDepth,
    SyphonPause,
    WaitingSample,
)
from dashboard.models.backlog import COUNTS
from dashboard.models.entity import AT_REST
from dashboard.models.syphon import WHOLE_PAIR
from dashboard.site.fitting import counted, fit, fitted, word
from pairing.backlog.rotation import parse_backlog_path
from pairing.events import Event

FEW = 20
"""Up to this many changes are written in one statement each; more are written in bulk."""
WAITING = ("waiting", "waiting_is_complete", "waiting_at", "oldest_waiting_at")


class Health(Protocol):
    """pairing.fleet.coordination.SharedHealth, and types with the same fields."""

    @property
    def path(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def since(self) -> datetime: ...
    @property
    def reason(self) -> str: ...
    @property
    def held_by(self) -> str | None: ...
    @property
    def expires(self) -> datetime | None: ...
    @property
    def origin(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def process(self) -> str: ...


class QueueInfo(Protocol):
    """pairing.backlog.administration.BacklogQueueInfo."""

    @property
    def path(self) -> str: ...
    @property
    def index(self) -> int | None: ...
    @property
    def active(self) -> int: ...
    @property
    def scheduled(self) -> int: ...
    @property
    def dead_lettered(self) -> int: ...
    @property
    def transfer(self) -> int: ...
    @property
    def transfer_dead_lettered(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def max_size_bytes(self) -> int: ...
    @property
    def status(self) -> str: ...
    @property
    def created_at(self) -> datetime | None: ...
    @property
    def accessed_at(self) -> datetime | None: ...
    @property
    def deviations(self) -> Mapping[str, tuple[Any, Any]]: ...


def apply_health(pair: str, health: Health) -> bool:
    """Store one entity's health. False if the stored health is as new or newer."""
    return bool(apply_all_health(pair, [health]))


def apply_all_health(pair: str, reported: Iterable[Health]) -> int:
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
        return sum(_apply(rows[health.path].pk, health) for health in newer)


def _apply(entity: int, health: Health) -> int:
    return EntityHealth.objects.filter(pk=entity, version__lt=health.version).update(**_health_columns(health))


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


def _health_columns(health: Health) -> dict[str, Any]:
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


def entity_rows(pair: str, paths: Iterable[str]) -> dict[str, EntityHealth]:
    """The rows of entities by path, created if missing. Raises Pair.DoesNotExist."""
    row, wanted = Pair.objects.get(name=pair), {path: fitted(path, 260) for path in paths}
    found = {entity.path: entity for entity in row.entities.filter(path__in=wanted.values())}
    if missing := sorted(set(wanted.values()) - found.keys()):
        fresh = [EntityHealth(pair=row, path=path, kind="queue") for path in missing]
        EntityHealth.objects.bulk_create(fresh, ignore_conflicts=True)
        found |= {entity.path: entity for entity in row.entities.filter(path__in=missing)}
    return {path: found[fits] for path, fits in wanted.items()}


def record_entities(pair: str, kinds: Mapping[str, str]) -> None:
    """Store the existing queues and topics by path. Raises Pair.DoesNotExist for a pair that is not configured."""
    row, reported = Pair.objects.get(name=pair), {fitted(path, 260): kind for path, kind in kinds.items()}
    known = dict(row.entities.values_list("path", "kind"))
    fresh = [EntityHealth(pair=row, path=path, kind=kind) for path, kind in reported.items() if path not in known]
    EntityHealth.objects.bulk_create(fresh, ignore_conflicts=True)
    for kind in set(reported.values()):  # rows created from reports of processes lack the kind
        if wrong := [path for path in known.keys() & reported.keys() if known[path] != reported[path] == kind]:
            row.entities.filter(path__in=wrong).update(kind=kind)


def record_listed(pair: str, listed: Collection[str], at: datetime) -> None:
    """Store which entities are missing from the primary's list, and which are listed again.

    An empty list is ignored. Names are compared case-insensitively, as by the broker. An entity that is failed over,
    or that has messages in the backlog, is not marked as deleted.
    """
    named = {fitted(path, 260).casefold() for path in listed}
    if not named:
        return
    rows = EntityHealth.objects.filter(Q(rank=AT_REST) | Q(gone_at__isnull=False), pair__name=pair)
    changed = [
        row for row in rows.only("path", "gone_at") if (row.gone_at is None) == (row.path.casefold() not in named)
    ]
    for row in changed:
        row.gone_at = at if row.gone_at is None else None
    EntityHealth.objects.bulk_update(changed, ["gone_at"], batch_size=500)


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


def record_depths(pair: str, queues: Iterable[QueueInfo], at: datetime, *, used: Collection[str] = ()) -> None:
    """Store a sample of all backlog queues of a pair. Queues missing from it are marked as deleted.

    `used`: the queues in the rotations of live processes, which are not orphans.
    """
    row = Pair.objects.get(name=pair)
    seen = list(queues)
    with transaction.atomic():
        samples = [_sample(_queue(row, info, at, used), info, at) for info in seen]
        DepthSample.objects.bulk_create(samples, ignore_conflicts=True)
        PairDepth.objects.get_or_create(
            pair=row,
            at=at,
            defaults={
                "messages": sum(info.active + info.scheduled for info in seen),
                "dead_lettered": sum(info.dead_lettered for info in seen),
                "size_bytes": sum(info.size_bytes for info in seen),
            },
        )
        missing = row.backlog_queues.exclude(path__in=[info.path for info in seen]).filter(seen_at__lt=at)
        missing.update(is_gone=True, deliverable_since=None, **dict.fromkeys((*COUNTS, "size_bytes"), 0))


def _queue(pair: Pair, info: QueueInfo, at: datetime, used: Collection[str]) -> BacklogQueue:
    named = parse_backlog_path(info.path)
    foreign = named is not None and named[0].lower() != pair.primary_namespace.lower()
    orphan = info.index is None or info.index >= pair.backlog_queue_count or foreign or not pair.is_configured
    queue, created = BacklogQueue.objects.get_or_create(pair=pair, path=info.path, defaults={"seen_at": at})
    if created or queue.seen_at < at:
        BacklogQueue.objects.filter(pk=queue.pk, seen_at__lte=at).update(
            index=info.index,
            active=info.active,
            scheduled=info.scheduled,
            dead_lettered=info.dead_lettered,
            transfer=info.transfer,
            transfer_dead_lettered=info.transfer_dead_lettered,
            size_bytes=info.size_bytes,
            max_size_bytes=info.max_size_bytes,
            status=str(info.status),
            deviations={name: [str(value) for value in pair] for name, pair in info.deviations.items()},
            is_orphan=orphan and info.path not in used,
            created_at=info.created_at,
            accessed_at=info.accessed_at,
            seen_at=at,
            is_gone=False,
        )
    return queue


def _sample(queue: BacklogQueue, info: QueueInfo, at: datetime) -> DepthSample:
    return DepthSample(
        queue=queue,
        at=at,
        active=info.active,
        scheduled=info.scheduled,
        dead_lettered=info.dead_lettered,
        size_bytes=info.size_bytes,
    )


def record_waiting(
    pair: str,
    waiting: Mapping[str, int],
    at: datetime,
    *,
    complete: bool = True,
    all_seen: bool = True,
    oldest: Mapping[str, datetime] | None = None,
) -> None:
    """Store the number of messages per entity in the backlog, as found by peeking its queues.

    If `complete` is False, the counts are estimates. Entities without a count have no messages, or, if `all_seen` is
    False, keep their previous count. `oldest`: the enqueued time of the oldest message of an entity.
    """
    oldest = oldest or {}
    if waiting:
        entity_rows(pair, waiting)
    counts = {fitted(path, 260): count for path, count in waiting.items() if count}
    since = {fitted(path, 260): at for path, at in oldest.items()}
    with transaction.atomic():
        entities = EntityHealth.objects.filter(pair__name=pair).exclude(waiting_at__gt=at)
        reported = entities.filter(Q(path__in=counts) | Q(waiting__gt=0) | Q(waiting_at__isnull=True))
        rows = list(reported.only("path", "waiting", "oldest_waiting_at"))
        for row in rows:
            is_kept = not all_seen and row.path not in counts
            row.waiting = row.waiting or 0 if is_kept else counts.get(row.path, 0)
            row.oldest_waiting_at = row.oldest_waiting_at if is_kept else since.get(row.path) if row.waiting else None
            row.waiting_is_complete, row.waiting_at = complete, at
        WaitingSample.objects.bulk_create(
            [WaitingSample(entity=row, at=at, waiting=row.waiting or 0) for row in rows], ignore_conflicts=True
        )
        # All entities that had and have no waiting messages are updated in one statement.
        entities.exclude(pk__in=[row.pk for row in rows]).update(
            waiting_is_complete=complete, waiting_at=at, oldest_waiting_at=None
        )
        EntityHealth.objects.bulk_update(rows, WAITING, batch_size=500)


def record_deliverable(pair: str, waiting: Mapping[str, Mapping[str, int]], at: datetime) -> None:
    """Store since when each backlog queue holds deliverable messages.

    `waiting` is by queue and entity. Messages for failing or failed-over entities, or of paused syphons, are not
    deliverable; the time starts when the pause ends. A queue with a sample later than `at` is not changed.
    """
    away = EntityHealth.objects.filter(pair__name=pair, state__in=("failing", "failed_over"))
    paused = SyphonPause.objects.filter(pair__name=pair)
    shut = {*away.values_list("path", flat=True), *paused.values_list("queue", flat=True)}
    open_queues = {} if WHOLE_PAIR in shut else {queue: paths for queue, paths in waiting.items() if queue not in shut}
    could_go = [queue for queue, paths in open_queues.items() if any(fitted(path, 260) not in shut for path in paths)]
    queues = BacklogQueue.objects.filter(pair__name=pair, seen_at__lte=at)
    free = queues.filter(path__in=could_go, deliverable_since__isnull=True, is_gone=False)
    free.update(deliverable_since=at)
    queues.exclude(path__in=could_go).filter(deliverable_since__isnull=False).update(deliverable_since=None)


def record_dead_letters(pair: str, counts: Mapping[str, int], at: datetime) -> None:
    """Store the number of dead letters of the primary's queues, by path; missing queues become unknown.

    Subscriptions of topics are in places.py. Counts older than the stored ones are ignored.
    """
    later = Q(dead_letters_at__isnull=True) | Q(dead_letters_at__lte=at)
    with transaction.atomic():
        if Pair.objects.filter(later, name=pair).update(dead_letters_at=at):
            _store_dead_letters(pair, counts)


def _store_dead_letters(pair: str, counts: Mapping[str, int]) -> None:
    entities = EntityHealth.objects.filter(pair__name=pair, kind="queue")
    reported = {fitted(path, 260): count for path, count in counts.items()}
    rows = [row for row in entities.only("path", "dead_lettered") if row.dead_lettered != reported.get(row.path)]
    for row in rows:
        row.dead_lettered = reported.get(row.path)
    EntityHealth.objects.bulk_update(rows, ["dead_lettered"], batch_size=500)


class Ping(Protocol):
    """pairing.fleet.coordination.PingRecord."""

    @property
    def at(self) -> datetime: ...
    @property
    def accepted(self) -> bool: ...
    @property
    def reason(self) -> str: ...
    @property
    def count(self) -> int: ...
    @property
    def next_due(self) -> datetime | None: ...


def record_pings(pair: str, pings: Mapping[str, Ping]) -> int:
    """Store the last pings of entities by path where they are later than the stored ones. Returns their number."""
    if not pings:
        return 0
    rows = entity_rows(pair, pings)
    later = {path: ping for path, ping in pings.items() if _is_later(ping.at, rows[path].last_ping_at)}
    if not later:
        return 0
    with transaction.atomic():
        return _set_later({rows[path].pk: _pinged(ping, rows[path]) for path, ping in later.items()}, by="last_ping_at")


def _pinged(ping: Ping, before: EntityHealth) -> dict[str, Any]:
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


def _is_later(at: datetime, known: datetime | None) -> bool:
    return known is None or known < at


class Disagreement(Protocol):
    """pairing.fleet.presence.ReportedStates."""

    @property
    def processes(self) -> int: ...
    @property
    def disputes(self) -> Mapping[str, int]: ...
    def failed_over_in(self, path: str) -> int: ...


def record_reported_states(pair: str, reported: Disagreement) -> bool:
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


def record_heartbeat(process: str, role: str, at: datetime, problems: Mapping[str, str] | None = None) -> None:
    """Store a worker's heartbeat at `at` and its problems, by subject.

    Roles: `pings`, `syphons`, `collectors`, `beat`, or one worker's list.
    """
    wrong = {fitted(what, 300): fitted(why, None) for what, why in (problems or {}).items()}
    reported = {"role": fitted(role, 60), "seen_at": at, "problems": wrong}
    Heartbeat.objects.update_or_create(process=fitted(process, 300), defaults=reported)
