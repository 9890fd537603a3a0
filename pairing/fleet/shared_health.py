"""The records that processes of a fleet exchange about an entity, its pings and the syphon, and their JSON."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pairing.stored_json import Stored

Origin = Literal["organic", "forced"]


@dataclass(frozen=True, slots=True)
class SharedHealth(Stored):
    """The state of one entity in the fleet."""

    path: str
    state: str
    """``healthy``, ``failing`` or ``failed_over``; only the first and the last are adopted by other processes."""
    since: datetime
    reason: str
    held_by: str | None
    expires: datetime | None
    """When the hold expires."""
    origin: Origin
    """``forced``: an operator's decision, which includes healthy."""
    version: int
    """Increases with every change, even after Redis was restarted empty."""
    process: str
    knew: int = 0
    """The last version at the time of this report, or that its author knew and superseded."""


@dataclass(frozen=True, slots=True)
class PingRecord(Stored):
    """The last ping of an entity, by any process."""

    at: datetime
    accepted: bool
    reason: str
    count: int
    """Pings since the entity failed over."""
    next_due: datetime | None


@dataclass(frozen=True, slots=True)
class Pause(Stored):
    """The operator, the reason and the time of a pause of the syphon."""

    by: str
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Pace(Stored):
    """An operator's rate limit of the syphon, with its reason and time."""

    rate: float
    """Maximum messages per second, over all processes of the fleet together."""
    by: str
    reason: str
    at: datetime
