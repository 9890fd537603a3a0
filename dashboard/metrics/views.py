"""Endpoints for machines: liveness, readiness, and metrics for Prometheus."""

import ipaddress
import secrets

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from dashboard.access.rights import Right, may
from dashboard.access.visibility import sees_all
from dashboard.fleet.boards import last_heartbeat
from dashboard.fleet.state.status import is_silent
from dashboard.metrics import CONTENT_TYPE, exposition
from dashboard.models.visibility import all_pairs
from dashboard.site import redis


@require_safe
@login_not_required
def healthz(request: HttpRequest) -> HttpResponse:
    """The process responds."""
    return HttpResponse("ok\n", content_type="text/plain")


@require_safe
@login_not_required
def readyz(request: HttpRequest) -> JsonResponse:
    """200 if database, Redis and the heartbeat of a worker are available; 503 names the unavailable ones."""
    parts = {"database": _database(), "redis": _redis()}
    parts["workers"] = _workers() if parts["database"] == "ok" else "not known without the database"
    is_ready = all(part == "ok" for part in parts.values())
    return JsonResponse({"ready": is_ready, **parts}, status=200 if is_ready else 503)


@require_safe
@login_not_required
def metrics(request: HttpRequest) -> HttpResponse:
    """Metrics of all pairs: for this host, for members who see all pairs, and for requests with METRICS_TOKEN."""
    is_member = may(request.user, Right.VIEW) and sees_all()
    if not (_is_local(request) or is_member or _has_token(request)):
        return HttpResponse("Send METRICS_TOKEN as a bearer token.\n", status=401, content_type="text/plain")
    with all_pairs():
        return HttpResponse(exposition(timezone.now()), content_type=CONTENT_TYPE)


def _database() -> str:
    try:
        connection.ensure_connection()
        last_heartbeat()
    except DatabaseError:
        return "does not answer, or is not migrated"
    return "ok"


def _redis() -> str:
    try:
        redis.connection().ping()
    except redis.RedisError:
        return "does not answer"
    return "ok"


def _workers() -> str:
    seen = last_heartbeat()
    if not is_silent(seen, timezone.now()):
        return "ok"
    return f"not heard of since {seen.isoformat()}" if seen else "never heard of"


FORWARDED = ("X-Forwarded-For", "X-Real-IP", "Forwarded", "Via")


def _is_local(request: HttpRequest) -> bool:
    """Whether the request comes from this host directly, not through a proxy on it."""
    if any(name in request.headers for name in FORWARDED):
        return False
    try:
        return ipaddress.ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:
        return False


def _has_token(request: HttpRequest) -> bool:
    token = settings.METRICS_TOKEN
    shown = request.headers.get("Authorization", "")
    return bool(token) and secrets.compare_digest(shown.encode(), f"Bearer {token}".encode())
