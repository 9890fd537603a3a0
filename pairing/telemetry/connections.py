"""How many AMQP connections of this process are open to a namespace: what a bill calls brokered connections.

The SDK opens one for each sender and each receiver (docs/wire.md). It offers no way to count them, so its private
attributes are read with care: where one is missing, nothing is counted, and the bill's own figure is the only one.
"""

from collections.abc import Iterable
from typing import Any

_TRIES = 3


def open_connections(clients: Iterable[Any]) -> int:
    """Of some of the SDK's clients, blocking or asyncio, just now; administration has none."""
    return sum(bool(getattr(handler, "_running", False)) for client in clients for handler in _handlers(client))


def _handlers(client: Any) -> list[Any]:
    for _ in range(_TRIES):
        try:
            return list(getattr(client, "_handlers", ()))
        except RuntimeError:  # another thread has just made one
            continue
    return []
