"""The overview: every pair, the worst first, live."""

from django.core.paginator import Paginator
from django.db.models import Case, IntegerField, QuerySet, Value, When
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard.boards import board
from dashboard.forms import EntityFilter
from dashboard.models import EntityHealth, Pair
from dashboard.telling import recent_events
from dashboard.views.answers import page_or_part, query_without_page

PAGE = 100
WORST_FIRST = Case(
    When(state="failed_over", then=Value(0)),
    When(state="failing", then=Value(1)),
    default=Value(2),
    output_field=IntegerField(),
)


@require_GET
def overview(request: HttpRequest) -> HttpResponse:
    """All pairs; htmx gets the live part alone."""
    form = EntityFilter(request.GET)
    page = Paginator(form.apply(worst_first().select_related("pair")), PAGE).get_page(request.GET.get("page"))
    context = {
        "board": board(timezone.now(), Pair.objects.prefetch_related("pauses"), page.object_list),
        "events": recent_events(),
        "form": form,
        "page": page,
        "query": query_without_page(request),
    }
    return page_or_part(request, "pairs/overview.html", context)


def worst_first() -> QuerySet[EntityHealth]:
    """All entities, those in trouble on the first page."""
    return EntityHealth.objects.order_by(WORST_FIRST, "pair__name", "path")
