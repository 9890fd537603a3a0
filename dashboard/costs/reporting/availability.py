"""The availability of a pair as a whole: the time of all of its entities together, read from stored rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dashboard.models import Availability, Outage


@dataclass(frozen=True, slots=True, kw_only=True)
class PairAvailability:
    """The availability of a pair in a month. `down_s`: of all entities together; `worst_s`: of the worst entity."""

    pair: str
    entities: int
    touched: int
    episodes: int
    down_s: float
    worst_s: float
    period_s: float
    repair_s: float | None

    @property
    def percent(self) -> float:
        """The share of the time in which its entities accepted sends in the primary."""
        return 100 * (1 - self.down_s / (self.entities * self.period_s)) if self.entities and self.period_s else 100.0

    @property
    def percent_shown(self) -> float:
        """The same, rounded down to three decimals: 100 appears only without any outage."""
        return math.floor(self.percent * 1000) / 1000


def by_pair(known: Iterable[Availability], outages: Iterable[Outage]) -> list[PairAvailability]:
    """Every pair that has entities, the least available first."""
    entities: dict[str, list[Availability]] = {}
    for each in known:
        entities.setdefault(each.pair, []).append(each)
    repairs: dict[str, list[float]] = {}
    for outage in outages:
        if (lasted := outage.lasted_s) is not None and outage.was_in_its_month:
            repairs.setdefault(outage.pair, []).append(lasted)
    found = (_of(pair, entities[pair], repairs.get(pair, [])) for pair in entities)
    return sorted(found, key=lambda one: (one.percent, one.pair))


def _of(pair: str, entities: Sequence[Availability], repairs: Sequence[float]) -> PairAvailability:
    return PairAvailability(
        pair=pair,
        entities=len(entities),
        touched=sum(1 for each in entities if each.episodes),
        episodes=sum(each.episodes for each in entities),
        down_s=sum(each.down_s for each in entities),
        worst_s=max(each.down_s for each in entities),
        period_s=max(each.period_s for each in entities),
        repair_s=sum(repairs) / len(repairs) if repairs else None,
    )
