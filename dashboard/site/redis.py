"""The control plane's way to Redis: short time-outs where a person waits for the page."""

from functools import lru_cache

import redis
from django.conf import settings

from pairing.fleet.coordination import SharedState

CHANGED = "dashboard:changed"
HEALTH_PATTERN = "pairing:{*}:health"
RedisError = redis.RedisError


@lru_cache(maxsize=4)
def _client(url: str, answer_s: float = 2.0) -> redis.Redis:
    return redis.Redis.from_url(
        url, decode_responses=True, socket_timeout=answer_s, socket_connect_timeout=1, health_check_interval=15
    )


def connection() -> redis.Redis:
    """The process's client of REDIS_URL. It connects when first used; its calls raise RedisError within two seconds."""
    return _client(settings.REDIS_URL)


def patient_connection() -> redis.Redis:
    """The same for a worker that waits for news: Redis may answer ten seconds late, as nobody waits for a page."""
    return _client(settings.REDIS_URL, 10.0)


def shared_state(pair: str) -> SharedState:
    """What the fleet shares about one pair. Calls raise RedisError where Redis is away."""
    return SharedState(connection(), pair)


def announce_change() -> None:
    """Tell every open page that facts have changed. Pages look by themselves too, so a lost word does no harm."""
    try:
        connection().publish(CHANGED, "")
    except RedisError:
        return
