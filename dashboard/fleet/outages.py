"""The one fold of failover events into outages. Pure: no database, no clock.

An entity is away from `failed_over` or `forced` until `recovered`. Reports of what is known already, by other processes
or once more, change nothing. Incidents, alerts and the charges all use this: docs/design/one-fold.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

AWAY, BACK = ("failed_over", "forced"), ("recovered",)
TURNS = (*AWAY, *BACK)
"""The kinds of events that begin or end an outage."""


class Turn(Enum):
    """What an event was to the outage of its entity."""

    BEGAN = "began"
    ENDED = "ended"


@dataclass(slots=True)
class Fold:
    """One entity's outages, event by event. It may begin with what is known of earlier events."""

    began_at: datetime | None = None
    """When the outage began that is not over; None where the entity is not away."""
    ended_at: datetime | None = None
    """When the last outage was over. An event from before then arrived late: it begins nothing."""

    def take(self, is_away: bool, at: datetime) -> Turn | None:
        """Take the next event that tells whether the entity is away; None where it changes nothing."""
        if is_away and self.began_at is None and (self.ended_at is None or at >= self.ended_at):
            self.began_at = at
            return Turn.BEGAN
        if not is_away and self.began_at is not None and at >= self.began_at:
            self.began_at, self.ended_at = None, at
            return Turn.ENDED
        return None


@dataclass(frozen=True, slots=True)
class Report:
    """An event of an entity, as far as it matters here."""

    time: datetime
    kind: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Outage:
    """One outage: the report that began it, and the one that ended it, if it is over."""

    began: Report
    ended: Report | None = None


def outages(reports: Iterable[Report]) -> Iterator[Outage]:
    """The outages of one entity, the oldest first, from its events in the order of time."""
    fold, began = Fold(), None
    for report in reports:
        turn = fold.take(report.kind in AWAY, report.time) if report.kind in TURNS else None
        if turn is Turn.BEGAN:
            began = report
        elif turn is Turn.ENDED and began is not None:
            yield Outage(began, report)
            began = None
    if began is not None:
        yield Outage(began)
