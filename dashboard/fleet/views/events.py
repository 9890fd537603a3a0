"""Failover events: a page with filters, and a CSV export."""

import csv
from collections.abc import Iterator

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.views.decorators.http import require_GET

from dashboard.fleet.forms import EventFilter
from dashboard.models import FailoverEvent, Pair
from dashboard.site.cells import cell
from dashboard.site.pages import page_or_part, query_without_page

PAGE = 100
COLUMNS = ("time", "pair", "entity", "kind", "reason", "process", "operator")


@require_GET
def listing(request: HttpRequest) -> HttpResponse:
    """Events, newest first; htmx requests return only the live part."""
    form = EventFilter(request.GET)
    page = Paginator(form.apply(FailoverEvent.objects.all()), PAGE).get_page(request.GET.get("page"))
    context = {"form": form, "page": page, "pairs": Pair.objects.all(), "query": query_without_page(request)}
    return page_or_part(request, "fleet/events.html", context)


class _Echo:
    def write(self, line: str) -> str:
        return line


@require_GET
def as_csv(request: HttpRequest) -> StreamingHttpResponse:
    """All matching events, newest first, streamed."""
    events = EventFilter(request.GET).apply(FailoverEvent.objects.all())

    def lines() -> Iterator[str]:
        writer = csv.writer(_Echo())
        yield writer.writerow(COLUMNS)
        for row in events.values_list(*COLUMNS).iterator(chunk_size=2000):
            yield writer.writerow([row[0].isoformat(), *(cell(value) for value in row[1:])])

    answer = StreamingHttpResponse(lines(), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = 'attachment; filename="events.csv"'
    return answer
