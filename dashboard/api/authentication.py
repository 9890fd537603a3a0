"""Authentication: a program by a token, or a person's browser by its session and a CSRF token; and rate limits.

Requests per minute are counted for each token and person, and invalid tokens for each address.
"""

import hashlib
import time
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest
from django.utils import timezone
from ninja.security import APIKeyCookie, HttpBearer

from dashboard.access import tokens
from dashboard.access.logins import whereabouts
from dashboard.access.rights import Right, limit, require
from dashboard.api.problems import ApiError
from dashboard.site import redis

WINDOW_S = 60
MOST_FAILURES = 60
_memory: dict[str, int] = {}
"""Counters of this process, used while Redis is unavailable."""


def count(kind: str, name: str) -> None:
    """Count a request; raises ApiError 429 above API_REQUESTS_PER_MINUTE."""
    if _add(_key(kind, name)) > settings.API_REQUESTS_PER_MINUTE:
        raise _impatient()


def note_failure(address: str) -> None:
    """Count an invalid token from this address. Raises ApiError 429 after too many, so that only those are delayed."""
    if _add(_key("address", whereabouts(address))) > MOST_FAILURES:
        raise _impatient()


def _impatient() -> ApiError:
    left = WINDOW_S - int(time.time()) % WINDOW_S
    return ApiError(429, f"Too many requests. Wait {left} s.", Retry_After=str(left))


def _key(kind: str, name: str) -> str:
    digest = hashlib.sha256(name.encode()).hexdigest()[:32]
    return f"dashboard:api:{int(time.time()) // WINDOW_S}:{kind}:{digest}"


def _add(key: str) -> int:
    try:
        with redis.connection().pipeline() as pipeline:
            pipeline.incr(key)
            pipeline.expire(key, 2 * WINDOW_S)
            return int(pipeline.execute()[0])
    except redis.RedisError:
        if len(_memory) > 10_000:
            _memory.clear()
        _memory[key] = _memory.get(key, 0) + 1
        return _memory[key]


def address_of(request: HttpRequest) -> str:
    """The address of the client, as reported by the reverse proxy."""
    return str(request.META.get("REMOTE_ADDR", ""))


class Bearer(HttpBearer):
    """A token. It gives at most its scope, and at most the present rights of its owner."""

    def authenticate(self, request: HttpRequest, token: str) -> User | None:
        row = tokens.find(token, timezone.now(), address_of(request))
        if row is None:
            note_failure(address_of(request))
            return None
        count("token", row.prefix)
        limit(row.owner, tokens.RIGHTS[row.scope])
        require(row.owner, Right.VIEW)
        request.user = row.owner
        request.via = f"token {row.name}"  # type: ignore[attr-defined]
        return row.owner


class Session(APIKeyCookie):
    """A signed-in browser. If the request has a token, only the token counts."""

    param_name = settings.SESSION_COOKIE_NAME

    def __call__(self, request: HttpRequest) -> Any | None:
        if "Authorization" in request.headers or not request.user.is_authenticated:
            return None
        return super().__call__(request)

    def authenticate(self, request: HttpRequest, key: str | None) -> User | None:
        person = request.user
        if not isinstance(person, User):
            return None
        count("person", str(person.pk))
        require(person, Right.VIEW)
        return person


class Shell:
    """The command line, which calls operations in its own process; nothing that comes over HTTP can be this."""

    @staticmethod
    def sign_in(request: HttpRequest, person: User | AnonymousUser) -> None:
        """Let a request act for a person."""
        request.user, request.via, request.is_of_a_shell = person, "a shell", True  # type: ignore[attr-defined]

    def __call__(self, request: HttpRequest) -> User | AnonymousUser | None:
        return request.user if getattr(request, "is_of_a_shell", False) else None


PEOPLE: list[Callable[[HttpRequest], Any]] = [Shell(), Session()]
EVERYBODY: list[Callable[[HttpRequest], Any]] = [*PEOPLE, Bearer()]


def via(request: HttpRequest) -> str:
    """The interface for the audit trail."""
    return str(getattr(request, "via", "the API"))


__all__ = ["EVERYBODY", "PEOPLE", "ApiError", "Bearer", "Session", "Shell", "address_of", "via"]
