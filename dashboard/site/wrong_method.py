"""The page for a GET of an address that accepts POST only: nothing was done, and a link to the page with the button.

This happens if a session ends: the button redirects to the sign-in, which redirects back to the button's address.
"""

from collections.abc import Mapping

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import ResolverMatch, reverse

from dashboard.site.pages import wants_part

BUTTONS: Mapping[str, tuple[str, str]] = {
    "logout": ("overview", "Overview"),
    "pair-demo": ("pair-detail", "The pair"),
    "alert-acknowledge": ("alerts", "Alerts"),
    "alerts-acknowledge": ("alerts", "Alerts"),
    "alert-rule-delete": ("alert-rules", "Rules and channels"),
    "alert-channel": ("alert-rules", "Rules and channels"),
    "drill-abort": ("drill-detail", "The drill"),
    "costs-compute": ("costs", "Costs"),
    "costs-terms": ("costs", "Costs"),
    "costs-budget": ("costs", "Costs"),
    "costs-reconcile-upload": ("costs-reconcile", "Comparison with the bill"),
    "token-make": ("tokens", "Tokens"),
    "token-revoke": ("tokens", "Tokens"),
}
"""By the name of a POST-only address: the page with its button, and the name of that page."""
KEPT = {"pair-detail": "pair", "drill-detail": "drill"}
"""The arguments of the button's address that the page's address needs."""


def explained(request: HttpRequest, bare: HttpResponse) -> HttpResponse:
    """The response 405 as a page for people; programs, anonymous users and htmx requests get it unchanged."""
    is_for_people = not request.path.startswith("/api/") and not wants_part(request)
    if not is_for_people or not request.user.is_authenticated:
        return bare
    is_button = request.method in ("GET", "HEAD")
    place, name = _place(request.resolver_match) if is_button else (request.path, "The page")
    context = {"is_button": is_button, "place": place, "name": name}
    answer = render(request, "site/405.html", context, status=405)
    answer["Allow"] = bare.headers.get("Allow", "")
    return answer


def _place(match: ResolverMatch | None) -> tuple[str, str]:
    page, name = BUTTONS.get(match.url_name or "", ("overview", "Overview")) if match else ("overview", "Overview")
    kept = KEPT.get(page)
    return reverse(page, kwargs={kept: match.kwargs[kept]} if match and kept else {}), name
