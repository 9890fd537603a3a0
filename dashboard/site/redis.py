"""The control plane's connections to Redis, with short timeouts for pages."""

from functools import lru_cache

import redis
from django.conf import settings

from pairing.fleet.coordination import SharedState
from pairing.fleet.redis_url import client_of

CHANGED = "dashboard:changed"
HEALTH_PATTERN = "pairing:{*}:health"
RedisError = redis.RedisError


@lru_cache(maxsize=4)
def _client(url: str, answer_s: float = 2.0) -> redis.Redis:
    return client_of(
        url,
        decode_responses=True,
        socket_timeout=answer_s,
        socket_connect_timeout=1,
        health_check_interval=15,
    )


def connection() -> redis.Redis:
    """The process's client of REDIS_URL. It connects on first use; calls raise RedisError within two seconds."""
    return _client(settings.REDIS_URL)


def patient_connection() -> redis.Redis:
    """The same for a worker that reads a stream: Redis may respond up to ten seconds late, as no page waits for it."""
    return _client(settings.REDIS_URL, 10.0)


def shared_state(pair: str) -> SharedState:
    """The shared state of one pair. Calls raise RedisError if Redis is unavailable."""
    return SharedState(connection(), pair)


def announce_change(pair: str = "") -> None:
    """Notify open pages that data of this pair, or of all, has changed. They also poll, so a lost one does no harm."""
    try:
        connection().publish(CHANGED, pair)
    except RedisError:
        return
