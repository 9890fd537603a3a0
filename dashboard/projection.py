"""What the fleet reports, written into the database. Called by the collectors; every function is safe to repeat.

Redis holds what is true now, the database what people look at and what is kept. A fact may arrive twice, late, or by
two collectors at once: health changes by compare and set on its version, events by their id, samples by their moment.
Call `announce_change` of dashboard.redis after a batch, so that open pages look again.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, Protocol

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from dashboard.fitting import fit, fitted, word
from dashboard.models import (
    BacklogQueue,
    DepthSample,
    EntityHealth,
    FailoverEvent,
    Heartbeat,
    Pair,
    PairDepth,
    WaitingSample,
)
from pairing.backlog import parse_backlog_path
from pairing.events import Event

WAITING = ("waiting", "waiting_is_complete", "waiting_at", "oldest_waiting_at")


class Health(Protocol):
    """pairing.coordination.SharedHealth, and whatever else tells the same."""

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
    """pairing.administration.BacklogQueueInfo."""

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
    """Take over one entity's health. False: what is known is as new, or newer."""
    return bool(apply_all_health(pair, [health]))


def apply_all_health(pair: str, told: Iterable[Health]) -> int:
    """Take over the health of entities of one pair, only what is newer than what is known. Returns how many were.

    What is as it was costs one query for all. Raises Pair.DoesNotExist for a pair nobody configured.
    """
    healths = list(told)
    rows = entity_rows(pair, [health.path for health in healths])
    newer = [health for health in healths if rows[health.path].version < health.version]
    if not newer:
        return 0
    with transaction.atomic():
        return sum(_apply(rows[health.path].pk, health) for health in newer)


def _apply(entity: int, health: Health) -> int:
    return EntityHealth.objects.filter(pk=entity, version__lt=health.version).update(
        state=health.state,
        since=health.since,
        reason=fitted(health.reason, None),
        held_by=health.held_by if health.state == "failed_over" else None,
        expires=health.expires,
        origin=health.origin,
        version=health.version,
        process=fitted(health.process, 300),
        applied_at=timezone.now(),
    )


def entity_rows(pair: str, paths: Iterable[str]) -> dict[str, EntityHealth]:
    """The rows of entities by path, made where they are first heard of. Raises Pair.DoesNotExist."""
    row, wanted = Pair.objects.get(name=pair), {path: fitted(path, 260) for path in paths}
    found = {entity.path: entity for entity in row.entities.filter(path__in=wanted.values())}
    if missing := sorted(set(wanted.values()) - found.keys()):
        fresh = [EntityHealth(pair=row, path=path, kind="queue") for path in missing]
        EntityHealth.objects.bulk_create(fresh, ignore_conflicts=True)
        found |= {entity.path: entity for entity in row.entities.filter(path__in=missing)}
    return {path: found[fits] for path, fits in wanted.items()}


def entity_row(pair: str, path: str, kind: str = "queue") -> EntityHealth:
    """The row of an entity, made when it is first heard of. Raises Pair.DoesNotExist for a pair nobody configured."""
    row, fits = Pair.objects.get(name=pair), fitted(path, 260)
    entity, _ = EntityHealth.objects.get_or_create(pair=row, path=fits, defaults={"kind": kind})
    return entity


def record_events(events: Iterable[Event]) -> int:
    """Store events; the ones already stored are left alone. Returns how many are new."""
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
    """Store what a sampler saw of all backlog queues of a pair at one moment. Queues it did not see are marked gone.

    `used` are the queues that live processes report in their rotations: none of them is an orphan.
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
        missing.update(is_gone=True, **dict.fromkeys(("active", "scheduled", "dead_lettered", "size_bytes"), 0))


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
    oldest: Mapping[str, datetime] | None = None,
) -> None:
    """Store how many messages for each entity sit in the backlog, as found by peeking its queues.

    Entities left out have none, unless `complete` is False: the peek stopped early, and counts are lower bounds.
    `oldest` is when the oldest message for an entity was put there.
    """
    oldest = oldest or {}
    for path in waiting:
        entity_row(pair, path)
    counts = {fitted(path, 260): count for path, count in waiting.items() if count}
    since = {fitted(path, 260): at for path, at in oldest.items()}
    with transaction.atomic():
        entities = EntityHealth.objects.filter(pair__name=pair).exclude(waiting_at__gt=at)
        told = entities.filter(Q(path__in=counts) | Q(waiting__gt=0) | Q(waiting_at__isnull=True))
        rows = list(told.only("path", "waiting"))
        for row in rows:
            row.waiting = counts.get(row.path, 0 if complete else row.waiting or 0)
            row.waiting_is_complete, row.waiting_at, row.oldest_waiting_at = complete, at, since.get(row.path)
        WaitingSample.objects.bulk_create(
            [WaitingSample(entity=row, at=at, waiting=row.waiting or 0) for row in rows], ignore_conflicts=True
        )
        # Those that had nothing waiting and have nothing now are one statement, however many they are.
        entities.exclude(pk__in=[row.pk for row in rows]).update(
            waiting_is_complete=complete, waiting_at=at, oldest_waiting_at=None
        )
        EntityHealth.objects.bulk_update(rows, WAITING, batch_size=500)


def record_ping(
    pair: str,
    path: str,
    *,
    at: datetime,
    accepted: bool,
    reason: str = "",
    count: int | None = None,
    next_due: datetime | None = None,
) -> bool:
    """Store the last ping of an entity. False: a later one is known."""
    entity = entity_row(pair, path)
    later = Q(last_ping_at__isnull=True) | Q(last_ping_at__lt=at)
    changed = EntityHealth.objects.filter(later, pk=entity.pk).update(
        last_ping_at=at,
        last_ping_accepted=accepted,
        last_ping_reason=reason,
        ping_count=entity.ping_count + 1 if count is None else count,
        next_ping_at=next_due,
    )
    return bool(changed)


class Ping(Protocol):
    """pairing.coordination.PingRecord."""

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
    """Store the last pings of entities by path, only those that are later than what is known. Returns how many were."""
    if not pings:
        return 0
    rows = entity_rows(pair, pings)
    later = {path: ping for path, ping in pings.items() if _is_later(ping.at, rows[path].last_ping_at)}
    with transaction.atomic():
        return sum(
            record_ping(
                pair,
                path,
                at=ping.at,
                accepted=ping.accepted,
                reason=ping.reason,
                count=ping.count,
                next_due=ping.next_due,
            )
            for path, ping in later.items()
        )


def _is_later(at: datetime, known: datetime | None) -> bool:
    return known is None or known < at


class Disagreement(Protocol):
    """pairing.presence.Opinions."""

    @property
    def processes(self) -> int: ...
    @property
    def disputes(self) -> Mapping[str, int]: ...
    def failed_over_in(self, path: str) -> int: ...


def record_opinions(pair: str, told: Disagreement) -> bool:
    """Store in how many of the processes that send an entity is failed over, where some dispute it; whether news."""
    entities = EntityHealth.objects.filter(pair__name=pair)
    changed = (
        entities.filter(processes__isnull=False)
        .exclude(path__in=told.disputes)
        .update(processes=None, failed_over_in=None)
    )
    for path in told.disputes:
        numbers = {"processes": told.processes, "failed_over_in": told.failed_over_in(path)}
        changed += entities.filter(path=path).exclude(**numbers).update(**numbers)
    return bool(changed)


def record_heartbeat(process: str, role: str, at: datetime) -> None:
    """Store that a worker was alive at `at`. Roles: `pings`, `syphons`, `collectors`, `beat`, or one worker's list."""
    Heartbeat.objects.update_or_create(process=process, defaults={"role": role, "seen_at": at})
