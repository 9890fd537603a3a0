"""Whether any worker is alive, for pages that depend on one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dashboard.fleet.boards import last_heartbeat
from dashboard.fleet.status import is_silent


@dataclass(frozen=True, slots=True)
class WorkerLiveness:
    """What `fleet/silence.html` shows."""

    heartbeat: datetime | None
    """When any worker was last heard of."""
    is_silent: bool


def worker_liveness(now: datetime) -> WorkerLiveness:
    """What is known now, in one query."""
    heard = last_heartbeat()
    return WorkerLiveness(heard, is_silent(heard, now))
