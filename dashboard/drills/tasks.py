"""What a worker can have to do next in a drill."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Prepare:
    """Create the canary if requested and missing; check that it can be used."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send one numbered message."""

    number: int


@dataclass(frozen=True, slots=True)
class Force:
    """Fail the canary over, held until the drill's expiry."""


@dataclass(frozen=True, slots=True)
class Look:
    """Count the drill's messages in the backlog."""


@dataclass(frozen=True, slots=True)
class Release:
    """End the hold, so that an accepted ping ends the failover."""


@dataclass(frozen=True, slots=True)
class MarkHealthy:
    """End hold and failover, if it is the drill's own."""


@dataclass(frozen=True, slots=True)
class Receive:
    """Receive available messages of the drill."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait and check again."""

    why: str


@dataclass(frozen=True, slots=True)
class Finish:
    """End the drill."""

    outcome: str
    detail: str


Task = Prepare | Send | Force | Look | Release | MarkHealthy | Receive | Wait | Finish
