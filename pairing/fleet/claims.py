"""Claims: what one process of a fleet does per interval, and the others leave to it."""

from typing import Any

_NO_END = -1


def claimed(client: Any, key: str, every_s: float) -> bool:
    """Whether the caller has claimed the key, which one process of a fleet does per interval.

    A claim expires. A claim without an expiry is foreign, and ends after this interval.
    """
    every_ms = max(int(every_s * 1000), 1)
    if client.set(key, "1", nx=True, px=every_ms):
        return True
    if client.pttl(key) == _NO_END:
        client.pexpire(key, every_ms)
    return False
