"""Pages for what went wrong: what it is, and what to do next."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

STALE = "The form was open too long, or your browser blocks cookies. Go back, load the page again and repeat."


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form without a valid token; nothing was done."""
    return render(request, "errors/403.html", {"reason": STALE}, status=403)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Something this person may not do."""
    return render(request, "errors/403.html", {"reason": str(exception)}, status=403)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """An address nothing answers to."""
    return render(request, "errors/404.html", status=404)


def broken(request: HttpRequest) -> HttpResponse:
    """An error of our own; the log has it."""
    return render(request, "errors/500.html", status=500)
