"""The depth of backlogs by hour and day: maximum, median and 95th percentile of the samples."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

Sample = tuple[str, str, datetime, int]
"""The pair, the queue, the time and the number of messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollup:
    """A period of one backlog queue, or (`*`) of all queues of a pair; the percentiles are real samples."""

    pair: str
    queue: str
    begins_at: datetime
    is_day: bool
    samples: int
    deepest: int
    p50: int
    p95: int


def read_samples(path: Path | None) -> Iterator[Sample]:
    """The samples of a file of JSON lines."""
    for line in path.read_text(encoding="utf-8").splitlines() if path else ():
        record = json.loads(line)
        at = datetime.fromisoformat(record["at"]).astimezone(UTC)
        yield record["pair"], record["queue"], at, record["messages"]


def rollups(samples: Iterable[Sample]) -> list[Rollup]:
    """Every hour and every day with a sample. Days are computed from samples, because percentiles of hours do not add
    up.
    """
    periods: dict[tuple[datetime, bool, str, str], list[int]] = defaultdict(list)
    for pair, queue, at, messages in samples:
        hour = at.replace(minute=0, second=0, microsecond=0)
        periods[hour, False, pair, queue].append(messages)
        periods[hour.replace(hour=0), True, pair, queue].append(messages)
    return [
        Rollup(
            pair=pair,
            queue=queue,
            begins_at=begins_at,
            is_day=is_day,
            samples=len(depths),
            deepest=max(depths),
            p50=_percentile(sorted(depths), 50),
            p95=_percentile(sorted(depths), 95),
        )
        for (begins_at, is_day, pair, queue), depths in sorted(periods.items())
    ]


def _percentile(depths: list[int], percent: int) -> int:
    """The least sample that as many percent of all do not exceed."""
    return depths[math.ceil(len(depths) * percent / 100) - 1]
