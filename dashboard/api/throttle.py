"""Rate limits: requests per minute for each token and person, and invalid tokens per minute for each address."""

import hashlib
import time

from django.conf import settings

from dashboard.access.logins import whereabouts
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
