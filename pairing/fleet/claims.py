"""Claims: what one process of a fleet does per interval, and the others leave to it."""

from typing import Any


def claimed(client: Any, key: str, every_s: float) -> bool:
    """Whether the caller has claimed the key, which one process of a fleet does per interval."""
    return bool(client.set(key, "1", nx=True, px=max(int(every_s * 1000), 1)))
