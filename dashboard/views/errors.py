"""Pages for what went wrong."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

STALE = "The form was open too long, or your browser blocks cookies. Go back, load the page again and repeat."


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """A form without a valid token; nothing was done."""
    return render(request, "errors/403.html", {"reason": STALE}, status=403)
