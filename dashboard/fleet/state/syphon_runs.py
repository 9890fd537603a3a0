"""Runs of syphons: which process served which backlog queue when, how much it drained, and why it ended.

Runs are derived from leases and from the ledgers of their holders, so that the run of a killed process also ends, when
its lease expires. All functions can be called by several workers at once, and by one that was suspended after reading:
later observations are kept.
"""

from collections.abc import Mapping, Set
from datetime import datetime, timedelta

from django.db.models import F

from dashboard.models import FailoverEvent, Pair, SyphonPause, SyphonRun
from dashboard.models.syphon import WHOLE_PAIR
from dashboard.site.fitting import fitted
from pairing.backlog.rotation import parse_backlog_path

STOPPED_WITHIN = timedelta(seconds=30)
LONGEST_LOOK_S = 60.0


def look(pair: str, leases: Mapping[str, str], now: datetime) -> int:
    """Start and end runs by the holders of leases. Returns the number of changes. Raises Pair.DoesNotExist.

    `now` is a time before the leases were read.
    """
    row = Pair.objects.get(name=pair)
    held = {fitted(name, 300): fitted(who, 300) for name, who in leases.items() if parse_backlog_path(name)}
    known = {run.queue: run for run in SyphonRun.objects.filter(pair=row, ended_at__isnull=True)}
    over = [run for queue, run in known.items() if held.get(queue) != run.holder and run.seen_at <= now]
    changed = sum(_end(run, held.get(run.queue), now) for run in over)
    begun = held.keys() - (known.keys() - {run.queue for run in over})
    fresh = [
        SyphonRun(pair=row, queue=queue, holder=held[queue], started_at=now, seen_at=now)
        for queue in begun - _ended_later(row, begun, now)
    ]
    SyphonRun.objects.bulk_create(fresh, ignore_conflicts=True)
    return changed + len(fresh)


def _ended_later(pair: Pair, queues: Set[str], now: datetime) -> set[str]:
    """The queues whose last run was active at that time."""
    runs = SyphonRun.objects.filter(pair=pair, queue__in=queues, ended_at__gt=now)
    return set(runs.values_list("queue", flat=True)) if queues else set()


def add_moved(pair: Pair, queue: str, reporter: str, fates: Mapping[str, int], now: datetime) -> None:
    """Add the fates of messages that the holder of the queue has reported since the last call."""
    run = SyphonRun.objects.filter(pair=pair, queue=queue, holder=reporter).order_by("-started_at").first()
    if run is None or not any(fates.values()):
        return
    moved, dead = fates.get("restored", 0), fates.get("dead_lettered", 0)
    SyphonRun.objects.filter(pk=run.pk).update(
        moved=F("moved") + moved,
        dead_lettered=F("dead_lettered") + dead,
        otherwise=F("otherwise") + sum(fates.values()) - moved - dead,
        busy_s=F("busy_s") + min(LONGEST_LOOK_S, max(0.0, (now - run.seen_at).total_seconds())),
    )


def seen(pair: str, now: datetime) -> None:
    """Update when active runs were last seen."""
    SyphonRun.objects.filter(pair__name=pair, ended_at__isnull=True, seen_at__lt=now).update(seen_at=now)


def _end(run: SyphonRun, taken_by: str | None, now: datetime) -> int:
    """1 if the run was open and has not been seen later."""
    open_run = SyphonRun.objects.filter(pk=run.pk, ended_at__isnull=True, seen_at__lte=now)
    return open_run.update(ended_at=now, ended_because=_why(run, taken_by, now))


def _why(run: SyphonRun, taken_by: str | None, now: datetime) -> str:
    pause = SyphonPause.objects.filter(pair=run.pair_id, queue__in=(run.queue, WHOLE_PAIR)).first()
    if pause is not None:
        return f"Paused by {pause.by}." if not pause.reason else f"Paused by {pause.by}: {pause.reason}"
    stopped = FailoverEvent.objects.filter(
        kind="syphon_stopped", process=run.holder, time__gte=run.seen_at - STOPPED_WITHIN
    )
    if stopped.exists():
        return "It was asked to stop."
    if taken_by is None:
        return "Its lease has expired, and no process holds the queue yet."
    return f"Its lease has expired: {taken_by} took over the queue."
