"""The audit trail."""

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET

from dashboard.models import AuditEntry
from dashboard.site.pages import page_or_part, query_without_page

PAGE = 100


@require_GET
def listing(request: HttpRequest) -> HttpResponse:
    """Actions of operators, newest first."""
    entries = AuditEntry.objects.all()
    wanted = {name: request.GET[name] for name in ("pair", "operator", "verb") if request.GET.get(name)}
    page = Paginator(entries.filter(**wanted), PAGE).get_page(request.GET.get("page"))
    context = {"page": page, "wanted": wanted, "query": query_without_page(request)}
    return page_or_part(request, "accounts/audit.html", context)
