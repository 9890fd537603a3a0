"""The audit trail: a page with filters, and a CSV export."""

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.views.decorators.http import require_GET

from dashboard.accounts.forms import AuditFilter
from dashboard.models import AuditEntry, Pair
from dashboard.site.pages import page_or_part, query_without_page
from dashboard.site.queries import page_of, read, require_readable
from dashboard.site.tables import csv_download

PAGE = 30
COLUMNS = ("at", "operator", "via", "verb", "pair", "target", "reason", "outcome", "detail")


@require_GET
def listing(request: HttpRequest) -> HttpResponse:
    """Actions of operators, newest first; htmx requests return only the live part."""
    form = read(request, AuditFilter)
    page = page_of(request, form.apply(AuditEntry.objects.all()), PAGE)
    form.offer("pair", Pair.objects.values_list("name", flat=True), "any pair")
    context = {"form": form, "page": page, "query": query_without_page(request)}
    return page_or_part(request, "accounts/audit.html", context)


@require_GET
def as_csv(request: HttpRequest) -> StreamingHttpResponse:
    """All matching actions, newest first, streamed."""
    entries = read(request, AuditFilter).apply(AuditEntry.objects.all())
    require_readable(request)
    return csv_download("audit", COLUMNS, entries.values_list(*COLUMNS).iterator(chunk_size=2000))
