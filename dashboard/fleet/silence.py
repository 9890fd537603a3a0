"""Whether any worker lives, for pages on which nothing moves without one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dashboard.fleet.boards import last_heartbeat
from dashboard.fleet.status import is_silent


@dataclass(frozen=True, slots=True)
class Silence:
    """As `fleet/silence.html` tells it."""

    heartbeat: datetime | None
    """When any worker was last heard of."""
    is_silent: bool


def silence(now: datetime) -> Silence:
    """What is known now; one question."""
    heard = last_heartbeat()
    return Silence(heard, is_silent(heard, now))
