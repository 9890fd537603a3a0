"""Pages for what went wrong: what it is, and what to do next."""

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

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
    """An error of our own; the log has it."""
    return render(request, "site/500.html", status=500)
