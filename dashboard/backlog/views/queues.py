"""The page of backlog queues of all pairs: depth, deviations, orphans, dead letters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard.backlog.orphans import QUARANTINED
from dashboard.models import BacklogQueue, Pair, QueueDeletion, QueueDrain, SyphonPause
from dashboard.models.syphon import WHOLE_PAIR
from dashboard.site.database import from_one_reading
from dashboard.site.pages import page_or_part, query_without_page
from dashboard.site.queries import page_of

PAGE = 16
SHOWN_FOR = timedelta(minutes=2)
"""How long the page shows the result of a deletion or a drain."""


@require_GET
@from_one_reading
def listing(request: HttpRequest) -> HttpResponse:
    """One table per pair; htmx requests return only the live part."""
    page, under_way = page_of(request, _worst_first(), PAGE), UnderWay.now()
    context = {
        "boards": [_board(pair, under_way, _neighbour(pair)) for pair in page],
        "page": page,
        "query": query_without_page(request),
    }
    return page_or_part(request, "backlog/list.html", context)


def _worst_first() -> QuerySet[Pair]:
    """All pairs, those first whose queues hold messages, are orphans, or deviate."""
    wrong = Q(is_orphan=True) | Q(active__gt=0) | Q(dead_lettered__gt=0) | ~Q(deviations={})
    bad = BacklogQueue.objects.filter(wrong, pair=OuterRef("pk"), is_gone=False)
    rows = Pair.objects.prefetch_related("backlog_queues", "pauses")
    return rows.annotate(is_bad=Exists(bad)).order_by("-is_bad", "name")


@dataclass(frozen=True, slots=True)
class UnderWay:
    """Running and recently ended deletions and drains, by pair and path."""

    deletions: Mapping[tuple[int, str], QueueDeletion]
    drains: Mapping[tuple[int, str], QueueDrain]
    ended: Sequence[QueueDeletion | QueueDrain]

    @classmethod
    def now(cls) -> "UnderWay":
        since = timezone.now() - SHOWN_FOR
        return cls(
            {(row.pair_id, row.path): row for row in QueueDeletion.open_ones()},
            {(row.pair_id, row.path): row for row in QueueDrain.open_ones()},
            [*QueueDeletion.objects.filter(ended_at__gt=since), *QueueDrain.objects.filter(ended_at__gt=since)],
        )


def _neighbour(pair: Pair) -> Pair | None:
    """For a pair removed from PAIRS_FILE: a configured pair with the same secondary."""
    if pair.is_configured:
        return None
    return Pair.objects.filter(is_configured=True, secondary_namespace=pair.secondary_namespace).first()


def _board(pair: Pair, under_way: UnderWay, neighbour: Pair | None) -> dict[str, object]:
    there = [queue for queue in pair.backlog_queues.all() if not queue.is_gone]
    queues = sorted(there, key=lambda queue: queue.is_orphan)  # the pair's own queues first, by index
    paused = {pause.queue: pause for pause in pair.pauses.all()}
    rows = [_row(queue, paused.get(queue.path), under_way) for queue in queues]
    return {
        "pair": pair,
        "neighbour": neighbour,
        "busy": [row for row in rows if not row["is_calm"]],
        "calm": [row for row in rows if row["is_calm"]],
        "paused": paused.get(WHOLE_PAIR),
        "messages": sum(queue.messages for queue in queues),
        "sampled_at": max((queue.seen_at for queue in queues), default=None),
        "dead_lettered": sum(queue.dead_lettered for queue in queues),
        "deviating": sum(_deviates(queue) for queue in queues),
        "orphans": sum(queue.is_orphan for queue in queues),
        "ended": [row for row in under_way.ended if row.pair_id == pair.pk],
    }


def _row(queue: BacklogQueue, pause: SyphonPause | None, under_way: UnderWay) -> dict[str, object]:
    key = (queue.pair_id, queue.path)
    notes = {
        "pause": pause,
        "deletion": under_way.deletions.get(key),
        "drain": under_way.drains.get(key),
        "needs_repair": _deviates(queue),
    }
    holds = queue.messages or queue.dead_lettered
    is_calm = not holds and not queue.is_orphan and queue.status == "Active" and not any(notes.values())
    return {"queue": queue, **notes, "is_calm": is_calm}


def _deviates(queue: BacklogQueue) -> bool:
    """The deviations without a quarantine, which is intended."""
    quarantined = queue.is_orphan and queue.status == QUARANTINED
    return bool(queue.deviations.keys() - ({"status"} if quarantined else set()))
