"""Incidents: the history of one entity from its first failure to its last drained message. Pure.

Incidents are not stored: they are folded from events and depth samples on demand.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from dashboard.fleet.depth.trend import LONGEST, drain_rate
from dashboard.fleet.state.event_lines import plain_cause
from dashboard.fleet.state.outages import Fold, Turn
from dashboard.fleet.state.status import Status
from dashboard.models import FailoverEvent
from dashboard.site.charts import Point

RATE_OVER = timedelta(minutes=2)
LEAST_FAILING = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Incident:
    """One outage of one entity. `id` is the id of the event that started the failover."""

    id: str
    pair: str
    entity: str
    began_at: datetime
    failed_over_at: datetime
    reason: str
    forced_by: str | None
    recovered_at: datetime | None = None
    drained_at: datetime | None = None
    is_held: bool = False
    events: tuple[FailoverEvent, ...] = ()

    @property
    def cause(self) -> str:
        """The cause of the failover in a few words; empty if an operator forced it, and for other reasons."""
        return "" if self.forced_by else plain_cause(self.reason)

    @property
    def is_over(self) -> bool:
        return self.drained_at is not None

    @property
    def status(self) -> Status:
        """Its state, as the badges of entities have it."""
        if self.is_over:
            return Status.HEALTHY
        return Status.DRAINING if self.recovered_at else Status.HELD if self.is_held else Status.FAILED_OVER

    def ended_at(self, now: datetime) -> datetime:
        """The end, or now."""
        return self.drained_at or now


@dataclass(frozen=True, slots=True)
class Drain:
    """The drain of an incident."""

    peak: int
    waiting: int
    rate: float | None
    """Messages per second over the last two minutes, without the time in which none moved; None if unknown."""
    left: timedelta | None
    """Remaining time at this rate; None if the backlog does not shrink."""


def incidents(events: Iterable[FailoverEvent], failover_interval: timedelta) -> list[Incident]:
    """The incidents of one entity, oldest first, from its events in chronological order."""
    fold, nearness = Fold(), max(2 * failover_interval, LEAST_FAILING)
    found: list[Incident] = []
    current: Incident | None = None
    failing: list[FailoverEvent] = []
    for event in events:
        turn = fold.take(event)
        if turn is Turn.BEGAN:
            current, failing = _begin(event, [one for one in failing if event.time - one.time <= nearness]), []
        elif current is not None:
            current = replace(current, events=(*current.events, event))
            if turn is Turn.ENDED:
                found.append(replace(current, recovered_at=event.time))
                current = None
        elif event.kind == "failing":
            failing.append(event)
        elif event.kind == "recovered":
            failing = []
    return [*found, current] if current else found


def drained(incident: Incident, samples: Sequence[Point], first_look: datetime | None) -> Incident:
    """The incident with the time when its backlog was seen to be empty, if it was.

    `samples`: the entity's nonzero depths and the zeros that follow them; `first_look`: the first sample after the
    recovery. Without a sample since then, the backlog is not known to be empty.
    """
    if incident.recovered_at is None or first_look is None:
        return incident
    later = (at for at, _ in samples if at >= first_look)
    home = next((moment for moment in (first_look, *later) if depth_at(moment, samples) == 0), None)
    return replace(incident, drained_at=home)


def depth_at(moment: datetime, samples: Sequence[Point]) -> int:
    """The depth that the last sample before this time reported; 0 before the first."""
    return next((waiting for at, waiting in reversed(samples) if at <= moment), 0)


def drain(incident: Incident, samples: Sequence[Point], now: datetime) -> Drain:
    """Peak, remaining messages, and rate of the drain; unknown values are None."""
    within = [(at, n) for at, n in samples if incident.began_at <= at <= incident.ended_at(now)]
    waiting = within[-1][1] if within and not incident.is_over else 0
    rate = _rate(incident, within)
    left = timedelta(seconds=min(waiting / rate, LONGEST.total_seconds())) if rate and waiting else None
    return Drain(max((n for _, n in within), default=0), waiting, rate, left)


def _begin(event: FailoverEvent, failing: Sequence[FailoverEvent]) -> Incident:
    return Incident(
        id=event.event_id,
        pair=event.pair,
        entity=event.entity,
        began_at=failing[0].time if failing else event.time,
        failed_over_at=event.time,
        reason=event.reason,
        forced_by=event.operator if event.kind == "forced" else None,
        events=(*failing, event),
    )


def _rate(incident: Incident, samples: Sequence[Point]) -> float | None:
    if incident.recovered_at is None or not samples:
        return None
    end = samples[-1][0]
    used = [(at, n) for at, n in samples if at >= max(end - RATE_OVER, incident.recovered_at - timedelta(seconds=10))]
    return drain_rate(used)
