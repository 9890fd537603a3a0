"""Start and end of an entity's failover alert, from its events and its state. Pure.

Events cover failovers that started and ended between two evaluations; the state covers lost events. Both can be late,
reported by several processes, and by clocks that differ slightly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from dashboard.fleet.state.outages import Fold, Turn
from dashboard.models import EntityHealth, FailoverEvent

SETTLED = timedelta(seconds=60)
"""Age from which the state counts regardless of times: the projection runs every five seconds."""


@dataclass(frozen=True, slots=True)
class Began:
    """Open an alert."""

    at: datetime
    reason: str
    by: str


@dataclass(frozen=True, slots=True)
class Ended:
    """Close the open alert."""

    at: datetime


def follow(
    began: datetime | None,
    ended: datetime | None,
    events: Iterable[FailoverEvent],
    entity: EntityHealth | None,
    now: datetime,
) -> list[Began | Ended]:
    """The steps, in order. `began`: start of the open alert (None: none is open); `ended`: end of the last one.

    Each failover opens exactly one alert, which ends once.
    """
    fold = Fold(began, ended)
    steps: list[Began | Ended] = []
    for event in sorted(events, key=lambda one: one.time):
        match fold.take(event):
            case Turn.BEGAN:
                steps.append(Began(event.time, event.reason, event.operator or ""))
            case Turn.ENDED:
                steps.append(Ended(event.time))
    if entity is not None and (step := _by_state(fold.began_at, fold.ended_at, entity, now)):
        steps.append(step)
    return steps


def _by_state(
    began: datetime | None, ended: datetime | None, entity: EntityHealth, now: datetime
) -> Began | Ended | None:
    since, is_away = entity.since or now, entity.state == "failed_over"
    is_known = entity.applied_at is not None and now - entity.applied_at >= SETTLED
    if is_away and began is None:
        by = (entity.held_by or "an operator") if entity.origin == "forced" else ""
        return Began(since, entity.reason, by) if ended is None or since > ended or is_known else None
    if not is_away and began is not None:
        is_settled = now - began >= SETTLED and (entity.applied_at is None or is_known)
        return Ended(max(since, began)) if entity.since and since >= began else Ended(now) if is_settled else None
    return None
