"""Outages: their part of the month, how available each entity was, and the operations each outage took.

Which outages there were is read from a file: the control plane has folded them from failover events. What was going on
when the month began is carried into it; what still goes on counts as downtime but not into the time to repair.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.months import Month
from pipeline.schemas import SETTLEMENTS
from pipeline.tariffs import CROSSING_KINDS

# What the library did only because of the episode; the syphon's send stands for the send to the primary.
POLL = "syphon_receive_empty"
OF_AN_ENTITY = ("send_backlog", "ping", "syphon_receive", "syphon_settle")
EXTRA = (*OF_AN_ENTITY, POLL)
OF_AN_OUTAGE = (*OF_AN_ENTITY, "syphon_send")
PLACE = ("scope", "namespace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What an outage took of one namespace, on the bill of its scope. `units`: billable, by kind.

    `crossing_bytes`: what went to the backlog and came out of it, and would cross regions if the pair does.
    """

    scope: str
    namespace: str
    units: Mapping[str, int]
    crossing_bytes: int = 0

    def added(self, rule: str) -> int:
        """Operations that had not been without the outage."""
        kinds = [kind for kind in EXTRA if rule != "published" or kind not in SETTLEMENTS]
        return sum(self.units.get(kind, 0) for kind in kinds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One outage of one entity. `down_s`: its part inside the month; `places`: what it took in it, to the next one."""

    pair: str
    entity: str
    started: datetime
    ended: datetime | None
    cause: str
    reason: str
    down_s: float
    places: tuple[Place, ...] = ()

    @property
    def units(self) -> dict[str, int]:
        """Billable units by kind, of all bills."""
        sums: Counter[str] = Counter()
        for place in self.places:
            sums.update(place.units)
        return dict(sums)

    @property
    def crossing_bytes(self) -> int:
        return sum(place.crossing_bytes for place in self.places)

    def touches(self, month: Month) -> bool:
        """Whether it was not over when the month began."""
        return self.ended is None or self.ended > month.start

    def extra(self, rule: str) -> int:
        """Operations that had not been without it."""
        return sum(place.added(rule) for place in self.places)


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """How long an entity of the primary was down in the period, and how long a repair took on average."""

    pair: str
    entity: str
    episodes: int
    down_s: float
    period_s: float
    repair_s: float | None

    @property
    def share(self) -> float:
        return 1 - self.down_s / self.period_s if self.period_s else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """One outage of one entity, as the control plane has folded it from failover events."""

    pair: str
    entity: str
    started: datetime
    ended: datetime | None
    cause: str
    reason: str

    @property
    def first_minute(self) -> int:
        return int(self.started.timestamp()) // 60

    @property
    def end_minute(self) -> float:
        """The first minute that is not in it any more."""
        return math.inf if self.ended is None else math.ceil(self.ended.timestamp() / 60)


def read_outages(path: Path | None) -> list[Outage]:
    """The outages of a file of JSON lines: `started`, `ended` (null while it lasts), `cause` and `reason` of each."""
    lines = path.read_text(encoding="utf-8").splitlines() if path else []
    return [_outage(json.loads(line)) for line in lines]


def _outage(record: dict[str, Any]) -> Outage:
    times = {name: datetime.fromisoformat(record[name]) if record[name] else None for name in ("started", "ended")}
    return Outage(**record | times)


def of_month(outages: Iterable[Outage], month: Month, now: datetime) -> list[Outage]:
    """The outages that touch the month, and of each entity the last one before it, whose backlog may be drained in it;
    by time.
    """
    found: list[Outage] = []
    earlier: dict[tuple[str, str], Outage] = {}
    for outage in sorted(outages, key=lambda each: each.started):
        if outage.started >= min(month.end, now):
            continue
        if outage.ended is not None and outage.ended <= month.start:
            earlier[outage.pair, outage.entity] = outage
        else:
            found.append(outage)
    return sorted([*earlier.values(), *found], key=lambda each: (each.started, each.pair, each.entity))


def hours_of(outages: Iterable[Outage]) -> set[int]:
    """The hours in which one begins or ends."""
    ends = {each.end_minute for each in outages} - {math.inf}
    return {int(minute) // 60 for minute in ends | {each.first_minute for each in outages}}


class Usage:
    """What outages took: billable units and bytes, by outage, place and kind. `add` takes the sums in any order."""

    def __init__(self, outages: Sequence[Outage]) -> None:
        self.taken: dict[Outage, dict[tuple[str, str], dict[str, list[int]]]] = {}
        self.of_entity: dict[tuple[str, str], list[Outage]] = defaultdict(list)
        self.of_pair: dict[str, list[Outage]] = defaultdict(list)
        for outage in sorted(outages, key=lambda each: (each.started, each.entity)):
            self.of_entity[outage.pair, outage.entity].append(outage)
            self.of_pair[outage.pair].append(outage)

    def add(self, table: pa.Table, time: str, minutes: int) -> None:
        """Add sums by `time`, which has as many `minutes`, and in none of which an outage begins or ends."""
        kinds = pa.array([*OF_AN_OUTAGE, POLL])
        some = table.filter(pc.is_in(table["kind"].cast(pa.string()), kinds))
        some = some.filter(pc.is_in(some["pair"].cast(pa.string()), pa.array(list(self.of_pair), pa.string())))
        names = ("pair", "entity", "kind", *PLACE, time, "billing_units", "bytes")
        for pair, entity, kind, scope, namespace, at, units, size in zip(
            *(some[name].to_pylist() for name in names), strict=True
        ):
            outage = self._poll(pair, at * minutes) if kind == POLL else self._of(pair, entity, at * minutes)
            if outage is not None:
                of_place = self.taken.setdefault(outage, {}).setdefault((scope, namespace), {})
                known = of_place.setdefault(kind, [0, 0])
                known[0] += units
                known[1] += size

    def _of(self, pair: str, entity: str, minute: int) -> Outage | None:
        """The entity's last outage that had begun."""
        begun = (each for each in reversed(self.of_entity.get((pair, entity), ())) if each.first_minute <= minute)
        return next(begun, None)

    def _poll(self, pair: str, minute: int) -> Outage | None:
        """The outage that a poll without a result is counted for: a poll is of a backlog queue, not of an entity, and
        counts for whichever outage of the pair had begun first.
        """
        are_open = (each for each in self.of_pair[pair] if each.first_minute <= minute < each.end_minute)
        return next(are_open, None)

    def episodes(self, month: Month, now: datetime) -> list[Episode]:
        """The outages with what they took, by time; of those before the month the ones that took something in it."""
        every = sorted(
            (each for outages in self.of_pair.values() for each in outages),
            key=lambda each: (each.started, each.pair, each.entity),
        )
        known = (self._episode(outage, month, now) for outage in every)
        return [each for each in known if each.places or each.touches(month)]

    def _episode(self, outage: Outage, month: Month, now: datetime) -> Episode:
        end = min(month.end, now)
        down = min(outage.ended or end, end) - max(outage.started, month.start)
        places = sorted(self.taken.get(outage, {}).items())
        return Episode(
            pair=outage.pair,
            entity=outage.entity,
            started=outage.started.astimezone(UTC),
            ended=outage.ended.astimezone(UTC) if outage.ended else None,
            cause=outage.cause,
            reason=outage.reason or "",
            down_s=max(0.0, down.total_seconds()),
            places=tuple(_place(*place, kinds) for place, kinds in places),
        )


def _place(scope: str, namespace: str, kinds: Mapping[str, Sequence[int]]) -> Place:
    return Place(
        scope=scope,
        namespace=namespace,
        units={kind: units for kind, (units, _) in kinds.items()},
        crossing_bytes=sum(size for kind, (_, size) in kinds.items() if kind in CROSSING_KINDS),
    )


def availability(
    episodes: Sequence[Episode], inventory: Sequence[tuple[str, str]], month: Month, now: datetime
) -> list[Availability]:
    """One record for each entity, those without an outage included."""
    end = min(month.end, now)
    period = max(0.0, (end - month.start).total_seconds())
    by_entity: dict[tuple[str, str], list[Episode]] = {entity: [] for entity in sorted(set(inventory))}
    for episode in episodes:
        if episode.touches(month):
            by_entity.setdefault((episode.pair, episode.entity), []).append(episode)
    return [
        Availability(
            pair=pair,
            entity=entity,
            episodes=len(found),
            down_s=sum(episode.down_s for episode in found),
            period_s=period,
            repair_s=_mean([(each.ended - each.started).total_seconds() for each in found if each.ended is not None]),
        )
        for (pair, entity), found in by_entity.items()
    ]


def _mean(seconds: Sequence[float]) -> float | None:
    return sum(seconds) / len(seconds) if seconds else None
