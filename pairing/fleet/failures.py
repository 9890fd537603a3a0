"""Errors of an unavailable Redis, for callers to which coordination is optional."""


def redis_errors() -> tuple[type[Exception], ...]:
    """The errors of a call that did not reach Redis; call it only with coordination."""
    from redis.exceptions import RedisError  # redis is an extra of the package, and installed with coordination

    return (RedisError, OSError)
