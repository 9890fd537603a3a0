"""The control plane's way to Redis: short time-outs where a person waits for the page.

Whatever somebody else has put under a key of ours is set aside or skipped (pairing/fleet/checked_redis.py).
"""

from functools import lru_cache
from typing import ClassVar

import redis
from django.conf import settings

from pairing.fleet.checked_redis import CheckedRedis
from pairing.fleet.coordination import SharedState
from pairing.fleet.keys import PAIRING, Keys

MOST_DIGITS = 15
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
}
"""The keys of the control plane, with the type of each; the library's are in pairing/fleet/keys.py."""


class ControlPlaneRedis(CheckedRedis):
    """The library's client, for its keys and those of the control plane."""

    keys_of: ClassVar[Keys] = Keys({**PAIRING, **KEYS})


@lru_cache(maxsize=4)
def _client(url: str, answer_s: float = 2.0) -> redis.Redis:
    return ControlPlaneRedis.from_url(
        url,
        decode_responses=True,
        encoding_errors="replace",  # what is no text makes no sense, but stops nothing
        socket_timeout=answer_s,
        socket_connect_timeout=1,
        health_check_interval=15,
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


def counted(key: str) -> int:
    """The counter under the key; 0 where there is none, or somebody else's text. Raises RedisError."""
    written = str(connection().get(key) or "")
    return int(written) if written.isascii() and written.isdigit() and len(written) <= MOST_DIGITS else 0


def announce_change() -> None:
    """Tell every open page that facts have changed. Pages look by themselves too, so a lost word does no harm."""
    try:
        connection().publish(CHANGED, "")
    except RedisError:
        return
