"""Storing of counts of messages: samples of backlog queues, what waits for each entity, dead letters.

All functions can be repeated safely: samples are identified by their time, and older counts change nothing.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from django.db import transaction
from django.db.models import Q

from dashboard.fleet.state.entity_rows import entity_rows
from dashboard.models import BacklogQueue, DepthSample, EntityHealth, Pair, PairDepth, SyphonPause, WaitingSample
from dashboard.models.backlog import COUNTS
from dashboard.models.syphon import WHOLE_PAIR
from dashboard.site.fitting import fitted
from pairing.backlog.administration import BacklogQueueInfo
from pairing.backlog.rotation import parse_backlog_path

WAITING = ("waiting", "waiting_is_complete", "waiting_at", "oldest_waiting_at")


def record_depths(pair: str, queues: Iterable[BacklogQueueInfo], at: datetime, *, used: Collection[str] = ()) -> None:
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


def _queue(pair: Pair, info: BacklogQueueInfo, at: datetime, used: Collection[str]) -> BacklogQueue:
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


def _sample(queue: BacklogQueue, info: BacklogQueueInfo, at: datetime) -> DepthSample:
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
