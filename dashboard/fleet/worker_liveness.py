"""Whether any worker is alive, for pages that depend on workers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dashboard.fleet.boards import last_heartbeat
from dashboard.fleet.status import is_silent


@dataclass(frozen=True, slots=True)
class WorkerLiveness:
    """The content of `fleet/silence.html`."""

    heartbeat: datetime | None
    """The time of the last heartbeat of any worker."""
    is_silent: bool


def worker_liveness(now: datetime) -> WorkerLiveness:
    """The current state, in one query."""
    heard = last_heartbeat()
    return WorkerLiveness(heard, is_silent(heard, now))
