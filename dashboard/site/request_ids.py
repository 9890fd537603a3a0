"""Every request has an id, which is in its log lines and in its response."""

import re
import time
import uuid
from collections.abc import Callable

import structlog
from django.http import HttpRequest, HttpResponse

HEADER = "X-Request-ID"
KNOWN = re.compile(r"[A-Za-z0-9._-]{1,64}")
log = structlog.get_logger(__name__)


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
