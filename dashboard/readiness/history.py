"""Readiness over time, from stored changes. Pure except for reading them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from dashboard.models import Pair, ReadinessChange
from dashboard.models.readiness import WHOLE_PAIR
from dashboard.readiness.score import FLAWLESS, WEIGHTS, Result, score

KEPT = timedelta(days=30)
MOST = 2_000
"""Maximum number of changes per chart; the newest are used."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One change: the new score, and the changed findings."""

    at: datetime
    score: int
    before: int | None
    turned: Mapping[str, Result]


def changes(pair: Pair, entity: str, since: datetime) -> list[ReadinessChange]:
    """The changes that affect an entity (`*`: only the pair), oldest first."""
    names = {WHOLE_PAIR, entity}
    found = ReadinessChange.objects.filter(pair=pair, entity__in=names, at__gte=since)
    return sorted(found.order_by("-at", "-id")[:MOST], key=lambda one: (one.at, one.pk))


def turns(kept: Iterable[ReadinessChange], entity: str) -> Iterator[Turn]:
    """The score after each change; an entity has none before it and its pair are checked."""
    results: dict[str, Result] = {} if entity != WHOLE_PAIR else dict(FLAWLESS)
    before: int | None = None
    for one in kept:
        reported = {name: Result(result) for name, result in one.results.items()}
        turned = {name: result for name, result in reported.items() if results.get(name) is not result}
        results |= reported
        if len(results) < len(WEIGHTS):
            continue
        now = score(results)
        if turned:
            yield Turn(one.at, now, before, turned)
        before = now
