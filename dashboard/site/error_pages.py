"""Error pages: what went wrong, and what to do next."""

import json
import sys

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string

from dashboard.site.database import AWAY, RETRY_AFTER_S, SENTENCE
from dashboard.site.pages import wants_part

STALE = "The form was open for too long, or your browser blocks cookies. Go back, reload the page and try again."
NOT_YOURS = "Your groups do not allow this. Somebody who administers all pairs can do it, or change your groups."


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form without a valid CSRF token; nothing was done."""
    return refusal(request, STALE)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """An invalid request. Only our own messages are shown, because Django's can contain internals."""
    reason = str(exception) if isinstance(exception, BadRequest) else "The address or the form is invalid."
    return render(request, "site/400.html", {"reason": reason}, status=400)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """The person is not allowed to do this."""
    return refusal(request, str(exception) or NOT_YOURS)


def refusal(request: HttpRequest, reason: str) -> HttpResponse:
    """The page that says which right is missing; htmx gets only the sentence."""
    name = "site/403.html#fragment" if wants_part(request) else "site/403.html"
    return render(request, name, {"reason": reason}, status=403)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """An unknown address."""
    return render(request, "site/404.html", status=404)


def broken(request: HttpRequest) -> HttpResponse:
    """An internal error, which is in the log; or an unavailable database."""
    if isinstance(sys.exc_info()[1], AWAY):
        return unavailable(request)
    return render(request, "site/500.html", status=500)


def unavailable(request: HttpRequest) -> HttpResponse:
    """The database does not respond: reported without using it, in the requested format, with Retry-After."""
    if request.path.startswith("/api/"):
        problem = {
            "type": "about:blank",
            "title": "Service Unavailable",
            "status": 503,
            "detail": SENTENCE,
            "errors": [],
        }
        answer = HttpResponse(json.dumps(problem), status=503, content_type="application/problem+json")
    elif "HX-Request" in request.headers:  # htmx's middleware may not have run yet
        answer = HttpResponse(SENTENCE, status=503)
    else:
        answer = HttpResponse(render_to_string("site/unavailable.html", {"reason": SENTENCE}), status=503)
    answer["Retry-After"] = str(RETRY_AFTER_S)
    answer["Cache-Control"] = "no-store"
    return answer


def explained(request: HttpRequest, bare: HttpResponse) -> HttpResponse:
    """The response 405 as a page for people; programs, anonymous users and htmx requests get it unchanged."""
    is_for_people = not request.path.startswith("/api/") and not wants_part(request)
    if not is_for_people or not request.user.is_authenticated:
        return bare
    context = {"is_button": request.method in ("GET", "HEAD")}
    answer = render(request, "site/405.html", context, status=405)
    answer["Allow"] = bare.headers.get("Allow", "")
    return answer
