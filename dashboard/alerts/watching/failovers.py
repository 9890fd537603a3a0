"""Start and end of an entity's failover alert, from its events and its state. Pure.

Events cover failovers that started and ended between two evaluations; the state covers lost events. Both can be late,
reported by several processes, and by clocks that differ slightly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from dashboard.fleet.state.outages import Fold, Turn

SETTLED = timedelta(seconds=60)
"""Age from which the state counts regardless of times: the projection runs every five seconds."""


@dataclass(frozen=True, slots=True)
class Report:
    """An event of the entity: away, or back."""

    at: datetime
    is_away: bool
    reason: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class State:
    """The current state of the entity. `known_at` is when the control plane stored it."""

    is_away: bool
    since: datetime | None
    known_at: datetime | None
    reason: str = ""
    by: str = ""


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
    began: datetime | None, ended: datetime | None, reported: Iterable[Report], state: State | None, now: datetime
) -> list[Began | Ended]:
    """The steps, in order. `began`: start of the open alert (None: none is open); `ended`: end of the last one.

    Each failover opens exactly one alert, which ends once.
    """
    fold = Fold(began, ended)
    steps: list[Began | Ended] = []
    for one in sorted(reported, key=lambda one: one.at):
        match fold.take(one.is_away, one.at):
            case Turn.BEGAN:
                steps.append(Began(one.at, one.reason, one.by))
            case Turn.ENDED:
                steps.append(Ended(one.at))
    if state is not None and (step := _by_state(fold.began_at, fold.ended_at, state, now)):
        steps.append(step)
    return steps


def _by_state(began: datetime | None, ended: datetime | None, state: State, now: datetime) -> Began | Ended | None:
    since = state.since or now
    if state.is_away and began is None:
        is_settled = state.known_at is not None and now - state.known_at >= SETTLED
        return Began(since, state.reason, state.by) if ended is None or since > ended or is_settled else None
    if not state.is_away and began is not None:
        is_settled = now - began >= SETTLED and (state.known_at is None or now - state.known_at >= SETTLED)
        return Ended(max(since, began)) if state.since and since >= began else Ended(now) if is_settled else None
    return None
