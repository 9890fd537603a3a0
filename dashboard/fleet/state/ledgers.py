"""The ledgers of syphons, copied from Redis, which keeps only the last fifty fillings of a queue."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet

from dashboard.fleet.state import projection, syphon_runs
from dashboard.models import BacklogQueue, Pair, SyphonLedger, SyphonPause
from dashboard.models.syphon import WHOLE_PAIR
from pairing.events import Event
from pairing.stored_json import reading

PATIENCE = timedelta(minutes=2)


@dataclass(frozen=True, slots=True)
class Filling:
    """The ledger of one filling of a queue: from its first message until it is drained."""

    queue: str
    began_at: datetime
    ended_at: datetime | None
    enqueued: int
    fates: Mapping[str, int]
    """Messages by fate."""
    missing: int | None
    """Unknown before the end."""
    reporter: str

    @property
    def home(self) -> int:
        return sum(self.fates.values())


def keep(pair: str, ledgers: Mapping[str, str], now: datetime) -> int:
    """Store the ledgers that the syphons of a pair report. Returns the number of new or changed fillings.

    Closed ledgers do not change. Raises Pair.DoesNotExist.
    """
    row = Pair.objects.get(name=pair)
    return sum(_kept(row, filling, now) for filling in _fillings(ledgers))


def during(pair: Pair, began: datetime, ended: datetime) -> QuerySet[SyphonLedger]:
    """The ledgers of fillings that overlap this time, by queue."""
    is_after = Q(ended_at__isnull=True) | Q(ended_at__gte=began)
    return SyphonLedger.objects.filter(is_after, pair=pair, began_at__lte=ended).order_by("queue", "began_at")


def stalled(now: datetime) -> QuerySet[BacklogQueue]:
    """Backlog queues whose syphon receives but does not deliver: deliverable messages wait for too long.

    Paused queues, and messages for failing or failed-over entities, do not count.
    """
    this = {"pair": OuterRef("pair"), "queue": OuterRef("path")}
    open_ledgers = SyphonLedger.objects.filter(**this, ended_at__isnull=True, enqueued__gt=F("home"))
    pauses = SyphonPause.objects.filter(Q(queue=OuterRef("path")) | Q(queue=WHOLE_PAIR), pair=OuterRef("pair"))
    held = BacklogQueue.objects.filter(is_gone=False, is_orphan=False, deliverable_since__lt=now - PATIENCE)
    return held.filter(Exists(open_ledgers.filter(moved_at__lt=now - PATIENCE)), ~Exists(pauses))


def _fillings(ledgers: Mapping[str, str]) -> Iterator[Filling]:
    """The fillings of all queues. ValueError with the name of a queue whose ledger cannot be read."""
    for queue, written in ledgers.items():
        with reading(f"the ledger of {queue}"):
            ledger = json.loads(written)
            fillings = [_filling(queue, one, ledger) for one in ledger.get("incidents", ()) if one["began_at"]]
        yield from fillings


def _filling(queue: str, reported: Mapping[str, Any], ledger: Mapping[str, Any]) -> Filling:
    """Call within `reading`."""
    ended = datetime.fromisoformat(reported["ended_at"]) if reported.get("ended_at") else None
    return Filling(
        queue=queue,
        began_at=datetime.fromisoformat(reported["began_at"]),
        ended_at=ended,
        enqueued=reported["enqueued"],
        fates=reported["fates"],
        missing=reported["missing"] if ended else None,
        reporter=str(ledger.get("reporter", "")),
    )


def _kept(pair: Pair, filling: Filling, now: datetime) -> bool:
    reported = {
        "ended_at": filling.ended_at,
        "enqueued": filling.enqueued,
        "fates": dict(filling.fates),
        "home": filling.home,
        "moved_at": now,
        "missing": filling.missing,
        "reporter": filling.reporter,
        "seen_at": now,
    }
    key = {"pair": pair, "queue": filling.queue, "began_at": filling.began_at}
    with transaction.atomic():  # a filling is counted in its syphon's run exactly once, or not at all
        row, created = SyphonLedger.objects.get_or_create(**key, defaults=reported)
        same = (row.ended_at, row.enqueued, row.fates) == (
            reported["ended_at"],
            reported["enqueued"],
            reported["fates"],
        )
        changed = created or (not same and _update(row, reported))
        if changed and filling.missing:
            projection.record_events([_unbalanced(pair.name, filling, filling.missing, now)])
        if changed:
            before = {} if created else row.fates
            more = {fate: max(0, count - before.get(fate, 0)) for fate, count in filling.fates.items()}
            syphon_runs.add_moved(pair, filling.queue, filling.reporter, more, now)
    return changed


def _unbalanced(pair: str, filling: Filling, missing: int, now: datetime) -> Event:
    """Record one event per unbalanced filling, however often its end is reported."""
    since = f"since {filling.began_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    which = uuid5(NAMESPACE_URL, f"{pair}/{filling.queue}/{filling.began_at.isoformat()}/unbalanced").hex
    counted = f"{missing} of {filling.enqueued} messages {since} are not accounted for"
    reason = counted if missing > 0 else f"the ledger accounts for {-missing} more messages than were enqueued {since}"
    return Event(which, now, pair, filling.queue, "ledger_unbalanced", reason, filling.reporter)


def _update(row: SyphonLedger, reported: dict[str, Any]) -> bool:
    """False if the stored ledger is closed or newer, for example after this worker was suspended."""
    if reported["home"] < row.home:
        return False
    if reported["home"] == row.home:
        del reported["moved_at"]
    as_it_was = SyphonLedger.objects.filter(pk=row.pk, ended_at__isnull=True, enqueued=row.enqueued, home=row.home)
    return bool(as_it_was.update(**reported))
