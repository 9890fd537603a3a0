"""What has happened in a queue, as numbers."""

from __future__ import annotations

from dataclasses import asdict, dataclass


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
