"""The page of one pair: its entities, backlog, syphon and history."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard.fleet.boards import PanelOf, board, watched_pairs
from dashboard.fleet.depth.charts import pair_chart_over
from dashboard.fleet.depth.peaks import SPANS
from dashboard.fleet.forms import EntityFilter
from dashboard.fleet.state.paces import paces
from dashboard.fleet.views.overview import PAGE, worst_first
from dashboard.site.database import from_one_reading
from dashboard.site.pages import page_or_part, query_without_page
from dashboard.site.queries import choice_of, page_of, read


@require_GET
@from_one_reading
def detail(request: HttpRequest, pair: str, panel_of: PanelOf) -> HttpResponse:
    """The pair's page; htmx requests return only the live part."""
    row = get_object_or_404(watched_pairs(timezone.now()), name=pair)
    form = read(request, EntityFilter)
    entities = form.apply(worst_first().filter(pair=row))
    page = page_of(request, entities, PAGE)
    now = timezone.now()
    may_fold = page.number == 1 and not form.is_used
    shown = board(now, [row], page.object_list, panel_of, may_fold=may_fold, is_of_one=True)
    span = choice_of(request, "span", SPANS, "Range of the chart")
    context = {
        "board": shown,
        "one": shown.pairs[0],
        "pair": row,
        "chart": pair_chart_over(row, span, now) if span.step_s else shown.pairs[0].chart,
        "span": span,
        "spans": SPANS.values(),
        "form": form,
        "page": page,
        "query": query_without_page(request),
        "events": shown.events,
        "queues": row.backlog_queues.filter(is_gone=False),
        "ledgers": row.ledgers.all()[:12],
        "runs": row.syphon_runs.all()[:12],
        "paces": sorted(paces(pair).items()),
        "demo": shown.pairs[0].demo,
    }
    return page_or_part(request, "fleet/pair.html", context)
