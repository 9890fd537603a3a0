"""Pages that know to answer with their live part alone."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.cache import patch_vary_headers


def wants_part(request: HttpRequest) -> bool:
    """Whether htmx asks, for a part of the page and not for a page out of the history."""
    htmx = getattr(request, "htmx", None)
    return htmx is not None and bool(htmx) and not htmx.history_restore_request


def query_without_page(request: HttpRequest) -> str:
    """The filters of the address, for links to other pages of the same list."""
    query = request.GET.copy()
    query.pop("page", None)
    return query.urlencode()


def page_or_part(
    request: HttpRequest, template: str, context: dict[str, Any], *, part: str = "live", status: int = 200
) -> HttpResponse:
    """The whole page, or for htmx one named part of it. Never kept by a cache: it shows what is true now."""
    name = f"{template}#{part}" if wants_part(request) else template
    answer = render(request, name, context, status=status)
    answer["Cache-Control"] = "no-store"
    patch_vary_headers(answer, ["HX-Request"])
    return answer
