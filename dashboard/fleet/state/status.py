"""The displayed status of entities, pairs and the fleet, from rows and the current time. Pure.

An entity without a report is healthy as long as workers are alive, since senders report only failures.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from dashboard.access.registry import offered

HEARTBEAT_LIMIT = timedelta(seconds=20)
"""A fleet without a newer heartbeat counts as silent."""


class Status(StrEnum):
    """The displayed status, worst first."""

    FAILED_OVER = "failed-over"
    HELD = "held"
    FAILING = "failing"
    UNKNOWN = "unknown"
    DRAINING = "draining"
    HEALTHY = "healthy"

    @property
    def word(self) -> str:
        return WORDS[self]

    @property
    def rank(self) -> int:
        return tuple(Status).index(self)


AWAY = (Status.FAILED_OVER, Status.HELD)
WORDS = {
    Status.FAILED_OVER: "Failed over",
    Status.HELD: "Held",
    Status.FAILING: "Failing",
    Status.UNKNOWN: "Unknown",
    Status.DRAINING: "Draining",
    Status.HEALTHY: "Healthy",
}
MEANINGS = {
    Status.FAILED_OVER: "Sends go to the backlog until a ping is accepted.",
    Status.HELD: "Sends go to the backlog until the hold is released.",
    Status.FAILING: "Sends raise; at the end of the failover interval they go to the backlog.",
    Status.UNKNOWN: "There is no report, and no worker is alive.",
    Status.DRAINING: "Sends go to the primary; the backlog is being drained.",
    Status.HEALTHY: "Sends go to the primary.",
}


def entity_status(state: str, *, is_held: bool, waiting: int | None, fleet_is_silent: bool) -> Status:
    """The status of an entity in this shared state with this many messages in the backlog (None: unknown)."""
    match state:
        case "failed_over":
            return Status.HELD if is_held else Status.FAILED_OVER
        case "failing":
            return Status.FAILING
        case "unknown" if fleet_is_silent:
            return Status.UNKNOWN
        case _:
            return Status.DRAINING if waiting else Status.HEALTHY


def is_held(held_by: str | None, expires: datetime | None, now: datetime) -> bool:
    """Whether a hold is in force and has not expired."""
    return held_by is not None and (expires is None or now < expires)


def verbs(status: Status) -> tuple[str, ...]:
    """The actions available for an entity in this status, most likely first."""
    return tuple(action.name for action in offered(status))


def is_silent(last_heartbeat: datetime | None, now: datetime) -> bool:
    """Whether the last heartbeat of any worker is too old."""
    return last_heartbeat is None or now - last_heartbeat > HEARTBEAT_LIMIT


@dataclass(frozen=True, slots=True)
class Headline:
    """One sentence about the fleet, and the status that sets its colour."""

    status: Status
    sentence: str
    detail: str


def headline(counts: Mapping[Status, int], in_backlog: int, *, is_paused: bool = False) -> Headline:
    """The headline, from entities by status and messages in all backlog queues.

    `is_paused`: the syphon of a pair with a backlog is paused.
    """
    count = {status: counts.get(status, 0) for status in Status}
    entities = sum(count.values())
    waiting = (
        f"{in_backlog:,} {_plural(in_backlog, 'message')} in the backlog" if in_backlog else "The backlog is empty"
    )
    total = f"{entities:,} {_plural(entities, 'entity', 'entities')}"
    away = count[Status.FAILED_OVER] + count[Status.HELD]
    if not entities:
        return Headline(Status.UNKNOWN, "No entities yet", waiting)
    if away:
        worst = Status.FAILED_OVER if count[Status.FAILED_OVER] else Status.HELD
        return Headline(worst, f"{away:,} of {total} failed over", waiting)
    for status in (Status.FAILING, Status.UNKNOWN):
        if count[status]:
            return Headline(status, f"{count[status]:,} of {total} {status.word.lower()}", waiting)
    if count[Status.DRAINING] or in_backlog:
        sentence = "All healthy, but the syphon is paused" if is_paused else "All healthy, backlog draining"
        return Headline(Status.DRAINING, sentence, waiting)
    return Headline(Status.HEALTHY, f"All {total} healthy" if entities > 1 else "Healthy", waiting)


def _plural(count: int, one: str, many: str | None = None) -> str:
    return one if count == 1 else many or f"{one}s"
