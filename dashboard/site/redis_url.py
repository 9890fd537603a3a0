"""REDIS_URL, checked as far as that is possible without a connection."""

from urllib.parse import urlsplit

import redis
from django.core.exceptions import ImproperlyConfigured

EXAMPLE = "redis://:PASSWORD@HOST:6379/0, rediss://… or unix:///FILE"


def usable_redis_url(url: str) -> str:
    """The URL. Raises ImproperlyConfigured, without repeating it: it may have a password."""
    try:
        parts = urlsplit(url)
        number = parts.path.strip("/")
        is_usable = bool(parts.path) if parts.scheme == "unix" else not number or number.isdigit()
        is_usable = is_usable and (parts.port or 1) > 0
        redis.Redis.from_url(url).connection_pool.make_connection()  # connects to nothing
    except (ValueError, TypeError, redis.RedisError):
        is_usable = False
    if not is_usable:
        raise ImproperlyConfigured(f"REDIS_URL cannot be read: give {EXAMPLE}.")
    return url
