"""The overview: all pairs, worst first, with live updates."""

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard.fleet.boards import PanelOf, board, watched_pairs
from dashboard.fleet.forms import EntityFilter
from dashboard.fleet.state.folders import folders
from dashboard.models import EntityHealth
from dashboard.site.database import from_one_reading
from dashboard.site.pages import page_or_part, query_without_page
from dashboard.site.queries import page_of, read

PAGE = 50


@require_GET
@from_one_reading
def overview(request: HttpRequest, panel_of: PanelOf) -> HttpResponse:
    """All pairs; htmx requests return only the live part."""
    form = read(request, EntityFilter)
    entities = form.apply(worst_first())
    grouped = folders(entities) if form.is_grouped else None
    page = page_of(request, entities.none() if form.is_grouped else entities, PAGE)
    now, may_fold = timezone.now(), page.number == 1 and not form.is_used
    shown = board(now, watched_pairs(now), page.object_list, panel_of, may_fold=may_fold)
    context = {
        "board": shown,
        "folders": grouped,
        "events": shown.events,
        "form": form,
        "page": page,
        "query": query_without_page(request),
    }
    return page_or_part(request, "fleet/overview.html", context)


def worst_first() -> QuerySet[EntityHealth]:
    """All entities, unhealthy ones on the first page."""
    return EntityHealth.objects.present().order_by("rank", "pair_id", "path").defer("process", "last_ping_reason")
