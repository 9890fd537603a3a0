"""The books of syphons: taken out of Redis, which keeps the last fifty fillings of a queue, and kept for people."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog
from django.db.models import F, Q, QuerySet

from dashboard.models import Pair, SyphonLedger

PATIENCE = timedelta(minutes=2)
log = structlog.get_logger(__name__)


def keep(pair: str, books: Mapping[str, str], now: datetime) -> int:
    """Store the books of a pair's queues as their syphons tell them; how many fillings are new or have changed.

    Books that are closed are facts and stay as they are. Raises Pair.DoesNotExist.
    """
    row = Pair.objects.get(name=pair)
    return sum(_kept(row, queue, filling, reporter, now) for queue, filling, reporter in _fillings(books))


def during(pair: Pair, began: datetime, ended: datetime) -> QuerySet[SyphonLedger]:
    """The books of fillings that overlap this time, by queue."""
    is_after = Q(ended_at__isnull=True) | Q(ended_at__gte=began)
    return SyphonLedger.objects.filter(is_after, pair=pair, began_at__lte=ended).order_by("queue", "began_at")


def stuck(now: datetime) -> QuerySet[SyphonLedger]:
    """Books of queues whose syphon receives but delivers nothing: messages were seen, and none has moved for a while.

    What is paused, or waits for an entity that is failed over, is no case for this: ask only where neither is so.
    """
    return SyphonLedger.objects.filter(ended_at__isnull=True, enqueued__gt=F("home"), moved_at__lt=now - PATIENCE)


def _fillings(books: Mapping[str, str]) -> Iterator[tuple[str, Mapping[str, Any], str]]:
    for queue, text in books.items():
        try:
            told: dict[str, Any] = json.loads(text)
            fillings = [one for one in told.get("incidents", ()) if one["began_at"]]
            reporter = str(told.get("reporter", ""))[:300]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning("unreadable books left out", queue=queue, problem=repr(error))
            continue
        yield from ((queue[:300], filling, reporter) for filling in fillings)


def _aware(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _kept(pair: Pair, queue: str, filling: Mapping[str, Any], reporter: str, now: datetime) -> bool:
    ended = _aware(filling["ended_at"]) if filling.get("ended_at") else None
    told = {
        "ended_at": ended,
        "enqueued": filling["enqueued"],
        "fates": dict(filling["fates"]),
        "home": sum(filling["fates"].values()),
        "moved_at": now,
        "missing": filling.get("missing") if ended else None,
        "reporter": reporter,
        "seen_at": now,
    }
    key = {"pair": pair, "queue": queue, "began_at": _aware(filling["began_at"])}
    row, created = SyphonLedger.objects.get_or_create(**key, defaults=told)
    same = (row.ended_at, row.enqueued, row.fates) == (told["ended_at"], told["enqueued"], told["fates"])
    if created or same:
        return created
    if told["home"] <= row.home:
        del told["moved_at"]
    return bool(SyphonLedger.objects.filter(pk=row.pk, ended_at__isnull=True).update(**told))
