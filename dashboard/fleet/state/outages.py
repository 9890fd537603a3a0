"""The fold of failover events into outages. Pure, except for `recorded`, which reads them.

The kinds of events declare which of them begin and end an outage. Repeated reports, also by other processes, change
nothing. Incidents, alerts and charges all use this fold: docs/design/pages.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from itertools import groupby
from operator import attrgetter
from typing import Any

from dashboard.models import EntityHealth, FailoverEvent
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

    def take(self, event: FailoverEvent) -> Turn | None:
        """Process the next event. Returns its effect; None if it changes nothing."""
        at = event.time
        if event.kind in AWAY and self.began_at is None and (self.ended_at is None or at >= self.ended_at):
            self.began_at = at
            return Turn.BEGAN
        if event.kind in BACK and self.began_at is not None and at >= self.began_at:
            self.began_at, self.ended_at = None, at
            return Turn.ENDED
        return None


@dataclass(frozen=True, slots=True)
class Outage:
    """One outage: the event that started it, and the one that ended it, if it is over."""

    began: FailoverEvent
    ended: FailoverEvent | None = None


def outages(events: Iterable[FailoverEvent]) -> Iterator[Outage]:
    """The outages of one entity, oldest first, from its events in chronological order."""
    fold, began = Fold(), None
    for event in events:
        turn = fold.take(event)
        if turn is Turn.BEGAN:
            began = event
        elif turn is Turn.ENDED and began is not None:
            yield Outage(began, event)
            began = None
    if began is not None:
        yield Outage(began)


def recorded(**which: Any) -> Iterator[Outage]:
    """The outages of these events, by pair and entity; drills of canaries are none."""
    real = FailoverEvent.objects.exclude(EntityHealth.objects.of_drills().seen_in()).exclude(entity="*")
    in_order = real.filter(kind__in=TURNS, **which).order_by("pair", "entity", "time", "event_id")
    for _, events in groupby(in_order.iterator(), attrgetter("pair", "entity")):
        yield from outages(events)
