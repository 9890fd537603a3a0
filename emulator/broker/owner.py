"""What the parts of a queue need of the queue they belong to."""

from __future__ import annotations

from typing import Protocol

from emulator.broker.counters import Counters
from emulator.broker.descriptions import QueueDescription
from emulator.broker.message import StoredMessage


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
