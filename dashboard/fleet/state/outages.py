"""The fold of failover events into outages. Pure: no database, no clock.

The kinds of events declare which of them begin and end an outage. Repeated reports, also by other processes, change
nothing. Incidents, alerts and charges all use this fold: docs/design/pages.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from pairing.events import KINDS

AWAY = tuple(name for name, kind in KINDS.items() if kind.outage == "begins")
BACK = tuple(name for name, kind in KINDS.items() if kind.outage == "ends")
TURNS = (*AWAY, *BACK)
"""The kinds of events that start or end an outage."""


class Turn(Enum):
    """The effect of an event on the outage of its entity."""

    BEGAN = "began"
    ENDED = "ended"


@dataclass(slots=True)
class Fold:
    """One entity's outages, event by event. It can start from the state after earlier events."""

    began_at: datetime | None = None
    """Start of the open outage; None if the entity is not away."""
    ended_at: datetime | None = None
    """End of the last outage. Earlier events arrived late and do not start an outage."""

    def take(self, is_away: bool, at: datetime) -> Turn | None:
        """Process the next event. Returns its effect; None if it changes nothing."""
        if is_away and self.began_at is None and (self.ended_at is None or at >= self.ended_at):
            self.began_at = at
            return Turn.BEGAN
        if not is_away and self.began_at is not None and at >= self.began_at:
            self.began_at, self.ended_at = None, at
            return Turn.ENDED
        return None


@dataclass(frozen=True, slots=True)
class Report:
    """The fields of an event that the fold uses."""

    time: datetime
    kind: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Outage:
    """One outage: the event that started it, and the one that ended it, if it is over."""

    began: Report
    ended: Report | None = None


def outages(reports: Iterable[Report]) -> Iterator[Outage]:
    """The outages of one entity, oldest first, from its events in chronological order."""
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
