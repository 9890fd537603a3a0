"""Pages for what went wrong: what it is, and what to do next."""

import json
import sys

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string

from dashboard.site.database import AWAY, RETRY_AFTER_S, SENTENCE
from dashboard.site.pages import wants_part

STALE = "The form was open too long, or your browser blocks cookies. Go back, load the page again and repeat."


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form without a valid token; nothing was done."""
    return refusal(request, STALE)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """A question that makes no sense. Only a sentence of ours is shown: Django's own would tell of its insides."""
    reason = str(exception) if isinstance(exception, BadRequest) else "The address or the form makes no sense."
    return render(request, "site/400.html", {"reason": reason}, status=400)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Something this person may not do."""
    return refusal(request, str(exception))


def refusal(request: HttpRequest, reason: str) -> HttpResponse:
    """The page that says what is missing; htmx gets its sentence alone, and shows it where one is."""
    name = "site/403.html#fragment" if wants_part(request) else "site/403.html"
    return render(request, name, {"reason": reason}, status=403)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """An address nothing answers to."""
    return render(request, "site/404.html", status=404)


def broken(request: HttpRequest) -> HttpResponse:
    """An error of our own, which the log has; or a database that does not answer."""
    if isinstance(sys.exc_info()[1], AWAY):
        return unavailable(request)
    return render(request, "site/500.html", status=500)


def unavailable(request: HttpRequest) -> HttpResponse:
    """The database does not answer: said without it, in the form that was asked for, with when to ask again."""
    if request.path.startswith("/api/"):
        problem = {
            "type": "about:blank",
            "title": "Service Unavailable",
            "status": 503,
            "detail": SENTENCE,
            "errors": [],
        }
        answer = HttpResponse(json.dumps(problem), status=503, content_type="application/problem+json")
    elif "HX-Request" in request.headers:  # what knows htmx may not have been reached
        answer = HttpResponse(SENTENCE, status=503)
    else:
        answer = HttpResponse(render_to_string("site/unavailable.html", {"reason": SENTENCE}), status=503)
    answer["Retry-After"] = str(RETRY_AFTER_S)
    answer["Cache-Control"] = "no-store"
    return answer
