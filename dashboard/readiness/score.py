"""Checks, and the one number that sums them up. Pure.

Not known is never good: a check of which nothing is known earns nothing. A vital check, without which a failover cannot
work, bounds the whole: 60 while it is not known, 20 where it is bad.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum

READY, ENDANGERED = 90, 60
"""From 90 an entity counts as ready; below 60 a failover would, as far as is known, not work or not end well."""


class Result(StrEnum):
    """What a check came to."""

    GOOD = "good"
    WEAK = "weak"
    BAD = "bad"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Weight:
    """What a check is worth, and whether a failover can do without."""

    points: int
    is_vital: bool
    title: str


WEIGHTS: Mapping[str, Weight] = {
    "secondary": Weight(12, True, "The secondary can be administered"),
    "queues": Weight(20, True, "Backlog queues are there and conform"),
    "senders": Weight(15, True, "Senders can use the backlog"),
    "rights": Weight(10, False, "Workers may send and listen there"),
    "home": Weight(10, False, "Workers may bring messages home"),
    "room": Weight(10, True, "There is room in the backlog"),
    "syphon": Weight(10, False, "A syphon stands ready for each queue"),
    "fleet": Weight(5, False, "Redis and workers are alive"),
    "sizes": Weight(5, False, "Messages fit the backlog"),
    "clocks": Weight(3, False, "Clocks agree"),
}
"""By the name of the check; 100 points in all."""
OF_ENTITY = ("home", "sizes")
"""Checks of one entity; all others are the same for a whole pair."""
SHARES = {Result.GOOD: 1.0, Result.WEAK: 0.5, Result.BAD: 0.0, Result.UNKNOWN: 0.0}
BOUNDS = {Result.BAD: 20, Result.UNKNOWN: 60}


@dataclass(frozen=True, slots=True)
class Check:
    """One check: what was found, and what a person can do about it; the latter is empty where all is good."""

    name: str
    verdict: Result
    reason: str = ""
    todo: str = ""

    def as_json(self) -> dict[str, str]:
        return asdict(self)

    @classmethod
    def from_json(cls, told: Mapping[str, str]) -> Check:
        return cls(told["name"], Result(told["verdict"]), told["reason"], told["todo"])

    @property
    def title(self) -> str:
        return WEIGHTS[self.name].title

    @property
    def points(self) -> int:
        return WEIGHTS[self.name].points

    @property
    def is_vital(self) -> bool:
        return WEIGHTS[self.name].is_vital


def score(verdicts: Mapping[str, Result]) -> int:
    """0 to 100; a check that is not among the verdicts is not known."""
    told = {name: verdicts.get(name, Result.UNKNOWN) for name in WEIGHTS}
    points = sum(WEIGHTS[name].points * SHARES[verdict] for name, verdict in told.items())
    bounds = [BOUNDS.get(verdict, 100) for name, verdict in told.items() if WEIGHTS[name].is_vital]
    return int(min(points, *bounds))


def results_of(checks: Iterable[Check]) -> dict[str, Result]:
    """The verdicts by name."""
    return {check.name: check.verdict for check in checks}


def faults_of(checks: Iterable[Check]) -> list[Check]:
    """The checks that cost points, the worst and weightiest first."""
    order = (Result.BAD, Result.UNKNOWN, Result.WEAK)
    found = [check for check in checks if check.verdict is not Result.GOOD]
    return sorted(found, key=lambda one: (not one.is_vital, order.index(one.verdict), -one.points))


def word(points: int | None) -> str:
    """What a number means: ready, weak, endangered; unknown for none."""
    if points is None:
        return "unknown"
    return "ready" if points >= READY else "weak" if points >= ENDANGERED else "endangered"
