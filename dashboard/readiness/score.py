"""Checks and the score computed from them. Pure.

An unknown check earns no points. A vital check, without which a failover cannot work, limits the score: to 60 while it
is unknown, to 20 if it is bad.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum

READY, ENDANGERED = 90, 60
"""From 90 an entity is ready; below 60 a failover or its drain would probably fail."""


class Result(StrEnum):
    """The finding of a check."""

    GOOD = "good"
    WEAK = "weak"
    BAD = "bad"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Weight:
    """The points of a check, and whether a failover cannot work without it."""

    points: int
    is_vital: bool
    title: str


WEIGHTS: Mapping[str, Weight] = {
    "secondary": Weight(12, True, "The secondary can be administered"),
    "queues": Weight(18, True, "Backlog queues exist and conform"),
    "senders": Weight(12, True, "Senders can use the backlog"),
    "rights": Weight(10, False, "Workers may send and listen there"),
    "home": Weight(10, False, "Workers may send to the primary"),
    "room": Weight(10, True, "There is room in the backlog"),
    "syphon": Weight(10, False, "A syphon is ready for each queue"),
    "fleet": Weight(5, False, "Redis and workers are alive"),
    "sizes": Weight(5, False, "Messages fit the backlog"),
    "clocks": Weight(3, False, "Clocks agree"),
    "gateway": Weight(5, False, "Gateways answer, with valid certificates"),
}
"""By name of the check; 100 points in total."""
OF_ENTITY = ("home", "sizes")
"""Checks of one entity; all others apply to a whole pair."""
FLAWLESS = dict.fromkeys(OF_ENTITY, Result.GOOD)
SHARES = {Result.GOOD: 1.0, Result.WEAK: 0.5, Result.BAD: 0.0, Result.UNKNOWN: 0.0}
BOUNDS = {Result.BAD: 20, Result.UNKNOWN: 60}


@dataclass(frozen=True, slots=True)
class Check:
    """One check: the finding, its reason, and the remedy, which is empty for good findings."""

    name: str
    result: Result
    reason: str = ""
    todo: str = ""

    def as_json(self) -> dict[str, str]:
        return asdict(self)

    @classmethod
    def from_json(cls, reported: Mapping[str, str]) -> Check:
        return cls(reported["name"], Result(reported["result"]), reported["reason"], reported["todo"])

    @property
    def title(self) -> str:
        return WEIGHTS[self.name].title

    @property
    def points(self) -> int:
        return WEIGHTS[self.name].points

    @property
    def is_vital(self) -> bool:
        return WEIGHTS[self.name].is_vital


def score(results: Mapping[str, Result]) -> int:
    """The score, 0 to 100; a missing finding counts as unknown."""
    vital = (results.get(name, Result.UNKNOWN) for name, weight in WEIGHTS.items() if weight.is_vital)
    return min(earned(results), *(BOUNDS.get(result, 100) for result in vital))


def earned(results: Mapping[str, Result]) -> int:
    """The points of all checks, without the limits of vital ones."""
    return int(sum(weight.points * SHARES[results.get(name, Result.UNKNOWN)] for name, weight in WEIGHTS.items()))


def capped(checks: Iterable[Check]) -> str:
    """The points of all checks, and the vital one that limits how many of them count; empty if all do."""
    known = list(checks)
    results = FLAWLESS | results_of(known)
    vital = [check for check in faults_of(known) if check.is_vital and check.result in BOUNDS]
    points, bound = earned(results), score(results)
    if not vital or bound == points:
        return ""
    worst = min(vital, key=lambda check: BOUNDS[check.result])
    how = "bad" if worst.result is Result.BAD else "not known"
    return f"{points} of 100 points, of which {bound} count while a vital check is {how}: {worst.title}."


def results_of(checks: Iterable[Check]) -> dict[str, Result]:
    """The findings by name."""
    return {check.name: check.result for check in checks}


def faults_of(checks: Iterable[Check]) -> list[Check]:
    """The checks that cost points, worst and heaviest first."""
    order = (Result.BAD, Result.UNKNOWN, Result.WEAK)
    found = [check for check in checks if check.result is not Result.GOOD]
    return sorted(found, key=lambda one: (not one.is_vital, order.index(one.result), -one.points))


def word(points: int | None) -> str:
    """The state of a score: ready, weak, endangered; unknown without one."""
    if points is None:
        return "unknown"
    return "ready" if points >= READY else "weak" if points >= ENDANGERED else "endangered"
