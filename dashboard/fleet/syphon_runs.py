"""Runs of syphons: who served which backlog queue from when to when, what it brought home, and why it ended.

Nobody writes runs down as they happen: they are read out of the leases, of which one process holds each, and out of the
ledgers, which that process keeps. So a process that was killed has its run ended as well, when its lease is seen to
have lapsed. Every function may be called by several workers at once, and by one that was frozen since it read: what
others have seen later than it stands.
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
    """Begin and end runs by who holds which queue's lease; how many began or ended. Raises Pair.DoesNotExist.

    `now` is from before the leases were read.
    """
    row = Pair.objects.get(name=pair)
    held = {fitted(name, 300): fitted(who, 300) for name, who in leases.items() if parse_backlog_path(name)}
    known = {run.queue: run for run in SyphonRun.objects.filter(pair=row, ended_at__isnull=True)}
    over = [run for queue, run in known.items() if held.get(queue) != run.holder and run.seen_at <= now]
    changed = sum(_end(run, held.get(run.queue), now) for run in over)
    begun = held.keys() - (known.keys() - {run.queue for run in over})
    fresh = [_begun(row, queue, held[queue], now) for queue in begun - _ended_later(row, begun, now)]
    SyphonRun.objects.bulk_create(fresh, ignore_conflicts=True)
    return changed + len(fresh)


def _ended_later(pair: Pair, queues: Set[str], now: datetime) -> set[str]:
    """Those of the queues whose last run was still on at that moment."""
    runs = SyphonRun.objects.filter(pair=pair, queue__in=queues, ended_at__gt=now)
    return set(runs.values_list("queue", flat=True)) if queues else set()


def add_moved(pair: Pair, queue: str, reporter: str, fates: Mapping[str, int], now: datetime) -> None:
    """Messages of the queue have met these fates since anybody looked; its holder has told so."""
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
    """The runs that go on were seen to."""
    SyphonRun.objects.filter(pair__name=pair, ended_at__isnull=True, seen_at__lt=now).update(seen_at=now)


def _begun(pair: Pair, queue: str, holder: str, now: datetime) -> SyphonRun:
    return SyphonRun(pair=pair, queue=queue, holder=holder, started_at=now, seen_at=now)


def _end(run: SyphonRun, taken_by: str | None, now: datetime) -> int:
    """1 where it was open, and nobody has seen it later."""
    open_run = SyphonRun.objects.filter(pk=run.pk, ended_at__isnull=True, seen_at__lte=now)
    return open_run.update(ended_at=now, ended_because=_why(run, taken_by, now))


def _why(run: SyphonRun, taken_by: str | None, now: datetime) -> str:
    pause = SyphonPause.objects.filter(pair=run.pair_id, queue__in=(run.queue, WHOLE_PAIR)).first()
    if pause is not None:
        return f"Paused by {pause.by}." if not pause.reason else f"Paused by {pause.by}: {pause.reason}"
    stopped = FailoverEvent.objects.filter(
        kind=FailoverEvent.Kind.SYPHON_STOPPED, process=run.holder, time__gte=run.seen_at - STOPPED_WITHIN
    )
    if stopped.exists():
        return "It was told to stop."
    if taken_by is None:
        return "Its lease has lapsed, and nobody has taken the queue yet."
    return f"Its lease has lapsed: {taken_by} took the queue over."
