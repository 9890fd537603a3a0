"""The open AMQP connections of this process to a namespace, which a bill calls brokered connections.

The SDK opens one for each sender and each receiver (docs/wire.md). It offers no way to count them, so its private
attributes are read with care: if one is missing, nothing is counted, and only the bill shows the number.
"""

from collections.abc import Iterable
from typing import Any

_TRIES = 3


def open_connections(clients: Iterable[Any]) -> int:
    """The number for these clients of the SDK, blocking or asyncio, at present; administration has no connections."""
    return sum(bool(getattr(handler, "_running", False)) for client in clients for handler in _handlers(client))


def _handlers(client: Any) -> list[Any]:
    for _ in range(_TRIES):
        try:
            return list(getattr(client, "_handlers", ()))
        except RuntimeError:  # another thread has just created one
            continue
    return []
