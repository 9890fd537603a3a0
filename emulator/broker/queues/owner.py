"""What the parts of a queue need of the queue they belong to, and what happened in it, as numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Protocol

from emulator.broker.descriptions import QueueDescription
from emulator.broker.message import StoredMessage


@dataclass(slots=True)
class Counters:
    """What happened in a queue since it was created or the process started."""

    enqueued: int = 0
    delivered: int = 0
    completed: int = 0
    dead_lettered: int = 0
    expired: int = 0
    pings_swallowed: int = 0
    duplicates: int = 0
    forwarded: int = 0

    def as_dict(self) -> dict[str, int]:
        return asdict(self)


class OwningQueue(Protocol):
    """The queue as its deliveries and its receivers see it."""

    description: QueueDescription
    counters: Counters
    accessed_at: float

    def make_available(self, stored: StoredMessage, now: float) -> None:
        """Return an unlocked message to its place in line, and deliver it if somebody waits."""

    def delivery_failed(self, stored: StoredMessage, now: float) -> None:
        """Count a delivery of an unlocked message, then make it available or dead-letter it."""

    def dead_letter(self, stored: StoredMessage, reason: str | None, description: str | None, now: float) -> None:
        """Move a message to the dead-letter queue."""

    def expire(self, stored: StoredMessage, now: float) -> None:
        """Remove a message whose time to live is over, or dead-letter it."""
