"""Pages that can also respond with only their live part."""

import json
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.cache import patch_vary_headers
from django.utils.http import url_has_allowed_host_and_scheme

from dashboard.site.menu import open_alerts

View = Callable[..., HttpResponse]


def wants_part(request: HttpRequest) -> bool:
    """Whether htmx requests a part of the page; a request from its history restores the whole page."""
    htmx = getattr(request, "htmx", None)
    return htmx is not None and bool(htmx) and not htmx.history_restore_request


def query_without_page(request: HttpRequest) -> str:
    """The filters in the address, for links to other pages of the same list."""
    query = request.GET.copy()
    query.pop("page", None)
    return query.urlencode()


def page_or_part(
    request: HttpRequest, template: str, context: dict[str, Any], *, part: str = "live", status: int = 200
) -> HttpResponse:
    """The whole page, or for htmx one named part of it. Never cached, because it shows the current state."""
    name = f"{template}#{part}" if wants_part(request) else template
    answer = render(request, name, context, status=status)
    answer["Cache-Control"] = "no-store"
    if part == "live" and wants_part(request):
        answer["HX-Trigger"] = _news_for_the_menu()
    patch_vary_headers(answer, ["HX-Request"])
    return answer


def only_as_part(page: str, *kept: str) -> Callable[[View], View]:
    """A view that answers htmx with a part of `page`. Opened directly, its address leads to that page.

    `kept`: the arguments of the address that the page's address needs.
    """

    def decorate(view: View) -> View:
        @wraps(view)
        def part(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if wants_part(request):
                return view(request, *args, **kwargs)
            address, query = reverse(page, kwargs={name: kwargs[name] for name in kept}), request.GET.urlencode()
            answer = redirect(f"{address}?{query}" if query else address)
            patch_vary_headers(answer, ["HX-Request"])
            return answer

        return part

    return decorate


def asked_again(request: HttpRequest, answer: HttpResponse) -> HttpResponse:
    """The confirmation again, if the input is invalid; in the dialog if htmx asked."""
    if answer.status_code != 200 and wants_part(request):
        answer.status_code = 200  # htmx does not swap other statuses
        answer["HX-Retarget"] = "#dialog"
    return answer


def _news_for_the_menu() -> str:
    """The number of open alerts as an htmx event, because the menu is not in the refreshed part of a page."""
    alerts = open_alerts()
    return json.dumps({"alerts": {"word": alerts.word, "title": alerts.sentence, "isLoud": alerts.unacknowledged > 0}})


def done_page(request: HttpRequest, sentence: str, *, changed: bool, back: str, failed: bool = False) -> HttpResponse:
    """The response to an action: for htmx a message and a refresh; otherwise a redirect to the previous page."""
    if wants_part(request):
        answer = render(request, "actions/confirm.html#result", {"sentence": sentence, "changed": changed})
        answer["HX-Trigger"] = "refresh"
        return answer
    (messages.warning if failed else messages.success)(request, sentence)
    return redirect(back)


def came_from(request: HttpRequest, otherwise: str) -> str:
    """The page that the person came from, if it is ours and does not require a POST."""
    wanted = request.POST.get("next") or request.GET.get("next") or request.headers.get("Referer", "")
    ours = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, require_https=request.is_secure())
    return wanted if ours and "/actions/" not in wanted else otherwise
