"""Failover events: a page with filters, and a CSV export."""

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.utils import timezone
from django.views.decorators.http import require_GET

from dashboard.fleet.boards import worker_liveness
from dashboard.fleet.forms import EventFilter
from dashboard.models import FailoverEvent, Pair
from dashboard.site.pages import page_or_part, query_without_page
from dashboard.site.queries import page_of, read, require_readable
from dashboard.site.tables import csv_download

PAGE = 25
COLUMNS = ("time", "pair", "entity", "kind", "reason", "process", "operator")


@require_GET
def listing(request: HttpRequest) -> HttpResponse:
    """Events, newest first; htmx requests return only the live part."""
    form = read(request, EventFilter)
    form.offer("pair", Pair.objects.values_list("name", flat=True), "any pair")
    page = page_of(request, form.apply(FailoverEvent.objects.all()), PAGE)
    board = worker_liveness(timezone.now())
    context = {"board": board, "form": form, "page": page, "query": query_without_page(request)}
    return page_or_part(request, "fleet/events.html", context)


@require_GET
def as_csv(request: HttpRequest) -> StreamingHttpResponse:
    """All matching events, newest first, streamed."""
    events = read(request, EventFilter).apply(FailoverEvent.objects.all())
    require_readable(request)
    return csv_download("events", COLUMNS, events.values_list(*COLUMNS).iterator(chunk_size=2000))
