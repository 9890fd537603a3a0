"""One pair: its entities, its backlog over time, its syphon, what happened to it."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard.boards import board
from dashboard.models import Pair
from dashboard.telling import recent_events
from dashboard.views.answers import page_or_part
from dashboard.views.overview import worst_first


@require_GET
def detail(request: HttpRequest, pair: str) -> HttpResponse:
    """The pair's page; htmx gets the live part alone."""
    row = get_object_or_404(Pair.objects.prefetch_related("pauses"), name=pair)
    shown = board(timezone.now(), [row], worst_first().filter(pair=row).select_related("pair"))
    context = {
        "board": shown,
        "one": shown.pairs[0],
        "pair": row,
        "events": recent_events(pair, limit=20),
        "queues": row.backlog_queues.filter(is_gone=False),
        "demo": shown.pairs[0].demo,
    }
    return page_or_part(request, "pairs/detail.html", context)
