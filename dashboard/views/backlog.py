"""Backlog queues of all pairs: depth, deviations, orphans, dead letters."""

from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from dashboard.models import Pair
from dashboard.models.syphon import WHOLE_PAIR
from dashboard.views.answers import page_or_part


@require_GET
def listing(request: HttpRequest) -> HttpResponse:
    """One table for each pair; htmx gets the live part alone."""
    pairs = Pair.objects.prefetch_related("backlog_queues", "pauses")
    context = {"boards": [_board(pair) for pair in pairs]}
    return page_or_part(request, "backlog/list.html", context)


def _board(pair: Pair) -> dict[str, object]:
    queues = [queue for queue in pair.backlog_queues.all() if not queue.is_gone]
    paused = {pause.queue: pause for pause in pair.pauses.all()}
    return {
        "pair": pair,
        "rows": [{"queue": queue, "pause": paused.get(queue.path)} for queue in queues],
        "paused": paused.get(WHOLE_PAIR),
        "messages": sum(queue.messages for queue in queues),
        "dead_lettered": sum(queue.dead_lettered for queue in queues),
        "deviating": sum(bool(queue.deviations) for queue in queues),
        "orphans": sum(queue.is_orphan for queue in queues),
    }
