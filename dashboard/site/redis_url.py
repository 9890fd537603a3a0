"""REDIS_URL, checked as far as that is possible without a connection."""

from urllib.parse import urlsplit

import redis
from django.core.exceptions import ImproperlyConfigured

from pairing.fleet.redis_url import client_of, names_sentinels

EXAMPLE = "redis://:PASSWORD@HOST:6379/0, rediss://…, unix:///FILE or redis+sentinel://HOST:26379,HOST:26379/MASTER/0"


def usable_redis_url(url: str) -> str:
    """The URL. Raises ImproperlyConfigured, without repeating it: it may have a password."""
    try:
        is_usable = names_sentinels(url) or _names_database(url)
        client_of(url, redis.Redis).connection_pool.make_connection()  # connects to nothing
    except (ValueError, TypeError, redis.RedisError):
        is_usable = False
    if not is_usable:
        raise ImproperlyConfigured(f"REDIS_URL cannot be read: give {EXAMPLE}.")
    return url


def _names_database(url: str) -> bool:
    """Whether the path is a file, or the number of a database, and the port is one."""
    parts = urlsplit(url)
    number = parts.path.strip("/")
    is_usable = bool(parts.path) if parts.scheme == "unix" else not number or number.isdigit()
    return is_usable and (parts.port or 1) > 0
