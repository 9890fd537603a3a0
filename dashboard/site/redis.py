"""The control plane's connections to Redis, with short timeouts for pages.

Values that another program has stored under our keys are set aside or skipped (pairing/fleet/checked_redis.py).
"""

from functools import lru_cache
from typing import ClassVar

import redis
from django.conf import settings

from pairing.fleet.checked_redis import CheckedRedis
from pairing.fleet.coordination import SharedState
from pairing.fleet.keys import PAIRING, Keys
from pairing.fleet.redis_url import client_of

CHANGED = "dashboard:changed"
HEALTH_PATTERN = "pairing:{*}:health"
RedisError = redis.RedisError
KEYS = {
    "dashboard:api:*": "counter",
    "dashboard:logins:*": "counter",
    "workers:heartbeat": "hash",
    "workers:tasks": "hash",
    "workers:census:*": "hash",
    "workers:drill-asked:*": "string",
    "workers:tick:*": "string",
}
"""The keys of the control plane, with the type of each; the library's are in pairing/fleet/keys.py."""


class ControlPlaneRedis(CheckedRedis):
    """The library's client, for its keys and those of the control plane."""

    keys_of: ClassVar[Keys] = Keys({**PAIRING, **KEYS})


@lru_cache(maxsize=4)
def _client(url: str, answer_s: float = 2.0) -> redis.Redis:
    return client_of(
        url,
        ControlPlaneRedis,
        decode_responses=True,
        encoding_errors="replace",  # invalid UTF-8 is replaced, and does not stop the reader
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


def announce_change() -> None:
    """Notify every open page that data has changed. Pages also poll, so a lost notification does no harm."""
    try:
        connection().publish(CHANGED, "")
    except RedisError:
        return
