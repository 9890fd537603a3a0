"""Whether what was sampled over a while stays flat. A pure function of the samples.

The rule for one series: take the samples of the judged part, that is all after the warm-up. Its slope is the median
of the slopes between all pairs of samples (Theil and Sen), so that a few high samples do not count. The series grows
if the slope times the length of the judged part is more than the allowance of its kind, and more than chance: the
lower end of the slope's 95 % interval is above zero, too.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import Any

FEWEST = 10
"""Fewer samples say nothing."""
CONFIDENCE = 1.96
"""Standard deviations of a 95 % interval."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """How much a series may rise over the judged part: a share of its median, or a number if that is more."""

    share: float
    number: float

    def of(self, level: float) -> float:
        return max(self.share * level, self.number)


ALLOWANCES: Mapping[str, Allowance] = {
    "memory (MiB)": Allowance(0.05, 4.0),
    "descriptors": Allowance(0.05, 2.0),
    "database files": Allowance(0.05, 2.0),
    "threads": Allowance(0.05, 1.0),
    "connections": Allowance(0.05, 2.0),
    "keys": Allowance(0.05, 2.0),
    "elements": Allowance(0.05, 20.0),
    "rows": Allowance(0.05, 5.0),
}
"""By kind of series: the first part of its name."""
BOUNDED: Mapping[str, str] = {"database files": "threads"}
"""Kinds that may rise up to another series of the same process: each thread has one connection to the database."""
RETAINED: Mapping[str, str] = {
    "rows: DepthSample": "8 days",
    "rows: WaitingSample": "8 days; 400 days without a backlog",
    "rows: PairDepth": "35 days",
    "rows: DepthPeak": "35 days; 400 days as hourly peaks",
    "rows: FailoverEvent": "400 days",
    "rows: SyphonLedger": "400 days",
    "rows: SyphonRun": "400 days",
    "rows: MeteredRecord": "1 day, until it is rolled up",
    "rows: MeteredUsage": "35 days; 400 days about a failover",
    "rows: ReadinessChange": "30 days",
    "rows: Notice": "90 days",
    "rows: Alert": "400 days after it is resolved",
}
"""Rows that are a record of what happened: they grow until their retention (dashboard/fleet/pruning.py)."""
FOR_EVER: Mapping[str, str] = {
    "rows: ChargeRun": "ever: it says when charges were computed",
    "rows: Outage": "ever: the bill of a month names its outages",
}
"""Rows that nothing deletes: charges and their sources."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One series, and what became of it."""

    name: str
    first: float
    last: float
    level: float
    per_hour: float
    rise: float
    allowed: float
    result: str
    """`flat`, `grows`, or `kept for …` or `at most …` if it grows by design."""

    @property
    def is_constant(self) -> bool:
        return self.result == "flat" and not self.per_hour and self.first == self.last


@dataclass(frozen=True, slots=True)
class Slope:
    """Per second, with the lower end of its interval."""

    middle: float
    lower: float


def judge(samples: Sequence[Mapping[str, Any]], warm_up_s: float) -> list[Judged]:
    """Every series of the samples after the warm-up. Raises ValueError if there are too few samples."""
    kept = [one for one in samples if one["at_s"] >= warm_up_s]
    if len(kept) < FEWEST:
        raise ValueError(f"only {len(kept)} samples after the warm-up: at least {FEWEST} are needed")
    names = sorted({name for one in kept for name in one["values"]})
    return [one for name in names if (one := _judge(name, kept)) is not None]


def _judge(name: str, samples: Sequence[Mapping[str, Any]]) -> Judged | None:
    """None for a series of too few samples, such as that of a process that ran for a moment."""
    points = [(float(one["at_s"]), float(one["values"][name])) for one in samples if name in one["values"]]
    if len(points) < FEWEST:
        return None
    values = [value for _, value in points]
    slope, level = slope_of(points), median(values)
    rise = slope.middle * (points[-1][0] - points[0][0])
    kind, _, process = name.partition(": ")
    allowed = ALLOWANCES[kind].of(level)
    result = "grows" if rise > allowed and slope.lower > 0 else "flat"
    if result == "grows" and kind in BOUNDED and _is_within(f"{BOUNDED[kind]}: {process}", name, samples):
        result = f"at most the {BOUNDED[kind]}"
    if result == "grows" and (kept := RETAINED.get(name) or FOR_EVER.get(name)):
        result = f"kept for {kept}"
    return Judged(name, values[0], values[-1], level, slope.middle * 3600, rise, allowed, result)


def _is_within(bound: str, name: str, samples: Sequence[Mapping[str, Any]]) -> bool:
    return all(one["values"].get(name, 0.0) <= one["values"].get(bound, 0.0) for one in samples)


def slope_of(points: Sequence[tuple[float, float]]) -> Slope:
    """The median of the slopes between all pairs of points, and the lower end of its 95 % interval."""
    slopes = sorted((b - a) / (t - s) for (s, a), (t, b) in combinations(points, 2) if t > s)
    count = len(points)
    width = CONFIDENCE * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    lower = max(int((len(slopes) - width) / 2), 0)
    return Slope(median(slopes), slopes[lower])


def restarted(samples: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Processes that did not live from the first to the last sample, with how often they were started again."""
    pids: dict[str, set[int]] = {}
    for one in samples:
        for name, pid in one["pids"].items():
            pids.setdefault(name, set()).add(pid)
    return {name: len(found) - 1 for name, found in pids.items() if len(found) > 1}
