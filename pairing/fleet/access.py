"""Access to Redis: its scripts and errors, and what one process of a fleet does for all."""

from functools import cache
from importlib.resources import files
from typing import Any


@cache
def script(package: str, *names: str) -> str:
    """The text of a script made of these parts, in order: ``lua/<name>.lua`` in the package.

    A file that uses definitions of another one, such as ``now`` of ``clock``, is not a script on its own.
    """
    folder = files(package) / "lua"
    return "\n".join((folder / f"{name}.lua").read_text(encoding="utf-8") for name in names)


def claimed(client: Any, key: str, every_s: float) -> bool:
    """Whether the caller has claimed the key, which one process of a fleet does per interval."""
    return bool(client.set(key, "1", nx=True, px=max(int(every_s * 1000), 1)))


def redis_errors() -> tuple[type[Exception], ...]:
    """The errors of a call that did not reach Redis; call it only with coordination."""
    from redis.exceptions import RedisError  # redis is an extra of the package, and installed with coordination

    return (RedisError, OSError)
