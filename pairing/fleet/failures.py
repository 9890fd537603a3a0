"""Errors of an unavailable Redis, for callers to which coordination is optional."""


def redis_errors() -> tuple[type[Exception], ...]:
    """The errors of a call that did not reach Redis; to be asked for where there is coordination."""
    from redis.exceptions import RedisError  # redis is an extra of the package; with coordination it is there

    return (RedisError, OSError)
