"""What a queue needs of its namespace, and what it counts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Protocol

from emulator.broker.journal import Journal
from emulator.broker.message import StoredMessage

if TYPE_CHECKING:
    from emulator.broker.queue import Queue


class Surroundings(Protocol):
    """What a queue needs of its namespace."""

    journal: Journal

    def wake(self, queue: Queue, due: float) -> None:
        """Call `queue.advance` at this time, or before."""

    def forward(self, target: str, stored: StoredMessage, now: float) -> None:
        """Put a copy of the message into another entity. Raises BrokerError, and then nothing was stored."""


@dataclass(slots=True)
class Counters:
    """What happened in this queue since it was created or the process started."""

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
