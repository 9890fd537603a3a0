"""Request ids, probes, static files, access for members only, and error pages that say what to do."""

import contextlib
import re
import time
import uuid
from collections.abc import Callable
from typing import Any

import structlog
from django.conf import settings
from django.db import DataError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from whitenoise.middleware import WhiteNoiseMiddleware  # type: ignore[import-untyped]

from dashboard.access.audited import ActionError
from dashboard.access.rights import Refused, Right, may
from dashboard.site.error_pages import explained, refusal
from dashboard.site.pages import wants_part

log = structlog.get_logger(__name__)
HEADER = "X-Request-ID"
KNOWN = re.compile(r"[A-Za-z0-9._-]{1,64}")
PROBES = ("/healthz", "/readyz", "/metrics")


def request_id(given: str) -> str:
    """The id given by a proxy, if it is valid; otherwise a new one."""
    return given if KNOWN.fullmatch(given) else uuid.uuid4().hex


class RequestIdMiddleware:
    """Binds the request id to the log. Requests that change something or fail get a log line.

    Neither query nor body is logged, because both may contain private data.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        identity = request_id(request.headers.get(HEADER, ""))
        began = time.monotonic()
        with structlog.contextvars.bound_contextvars(request_id=identity):
            answer = self.get_response(request)
            if request.method not in ("GET", "HEAD", "OPTIONS") or answer.status_code >= 500:
                log.info(
                    "request",
                    method=request.method,
                    path=request.path,
                    status=answer.status_code,
                    user=_name(request),
                    duration_ms=round(1000 * (time.monotonic() - began)),
                )
        answer[HEADER] = identity
        return answer


def _name(request: HttpRequest) -> str:
    user = getattr(request, "user", None)
    return user.get_username() if user is not None and user.is_authenticated else ""


class ProbesMiddleware:
    """Takes any Host for these addresses, whose answers name no host. Who may read what stays as it is."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path in PROBES:
            request.get_host = lambda: "localhost"  # type: ignore[method-assign]
        return self.get_response(request)


class StaticFilesMiddleware(WhiteNoiseMiddleware):  # type: ignore[misc]
    """WhiteNoise with complete responses: an ASGI server cannot stream from its blocking files."""

    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> HttpResponse:
        found = static_file.get_response(request.method, request.META)
        with found.file or contextlib.nullcontext() as file:
            answer = HttpResponse(file.read() if file else b"", status=int(found.status))
        del answer["Content-Type"]
        for name, value in found.headers:
            answer[name] = value
        return answer


class MembersOnlyMiddleware:
    """Refuses people who are signed in but in no group. Strangers are sent to the login by Django's own middleware.

    What is answered to people is kept by no cache.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        answer = self.get_response(request)
        if request.user.is_authenticated:
            answer.setdefault("Cache-Control", "no-store")  # nor does the back button show it after signing out
        return answer

    def process_view(self, request: HttpRequest, view: Callable[..., HttpResponse], *_: object) -> HttpResponse | None:
        if (
            not getattr(view, "login_required", True)
            or not request.user.is_authenticated
            or may(request.user, Right.VIEW)
        ):
            return None
        return refusal(request, "You are signed in, but in no group yet.")


class ControlPlaneErrorsMiddleware:
    """Turns a refused or failed action into a page, or for htmx into a message; and a wrong method into a page."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        answer = self.get_response(request)
        return explained(request, answer) if answer.status_code == 405 else answer

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if isinstance(error, Refused):
            return self._answer(request, "site/403.html", str(error), 403)
        if isinstance(error, ActionError):
            return self._answer(request, "site/503.html", str(error), 503)
        if isinstance(error, DataError):  # PostgreSQL rejects text with a NUL, which nobody types
            log.warning("the database rejects a value of the request", path=request.path, error=str(error))
            return self._answer(request, "site/400.html", "The address or the form is invalid.", 400)
        return None

    def _answer(self, request: HttpRequest, template: str, reason: str, status: int) -> HttpResponse:
        name = f"{template}#fragment" if wants_part(request) else template
        return render(request, name, {"reason": reason, "debug": settings.DEBUG}, status=status)
