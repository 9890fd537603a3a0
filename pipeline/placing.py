"""The billable units of a month in their price tiers: each in the place of its tier, under each rule.

An hour inside one tier needs no more detail. The few hours in which a tier begins are taken by minute, and the minute
in which it does row by row: by namespace, entity, kind and pair. All arithmetic uses whole units.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.schemas import KEY, RULES, SETTLEMENTS
from pipeline.usage.folder import day_of
from pipeline.usage.sums import by_day

COUNTED = ("operations", "messages", "bytes")
ORDER_IN_MINUTE = ("namespace", "entity", "kind", "pair")
MANY = 2_000_000
"""Sums that are held at once, unless the report has more rows."""
Moment = tuple[str, int]
"""A billing scope and the number of an hour, or of a minute, since 1970."""
Tables = Callable[[], Iterable[tuple[str, pa.Table]]]
"""The sums of each day, with its date."""


@dataclass(slots=True)
class Total:
    """What was counted of a row of the report, or of a kind on a day, and by rule its units in their places."""

    places: dict[str, list[int]]
    counted: list[int] = field(default_factory=lambda: [0] * len(COUNTED))

    def add(self, counted: Sequence[int], units: Mapping[str, Iterable[tuple[int, int]]]) -> None:
        """Add a sum: what COUNTED names, and by rule the places and how many units are in each."""
        self.counted = [known + more for known, more in zip(self.counted, counted, strict=True)]
        for rule, places in units.items():
            for number, more in places:
                self.places[rule][number] += more


class Placed:
    """The month's sums, their units in `places`: the `lines` by KEY, and the `days` by scope, date and kind."""

    def __init__(self, places: int) -> None:
        self._places = places
        self.lines: dict[tuple[str, ...], Total] = defaultdict(self._nothing)
        self.days: dict[tuple[str, ...], Total] = defaultdict(self._nothing)

    def _nothing(self) -> Total:
        return Total({rule: [0] * self._places for rule in RULES})


@dataclass(frozen=True, slots=True)
class Step:
    """An hour or minute of a scope on the ladder: by rule the units used `before` it in the month, and its tier; None
    where one begins in it.
    """

    before: Mapping[str, int]
    tiers: Mapping[str, int | None]

    @property
    def is_split(self) -> bool:
        return None in self.tiers.values()


@dataclass(frozen=True, slots=True)
class Ladder:
    """The steps of each scope in the tiers that begin at `starts`; `time`: whether a step is an hour or a minute."""

    starts: Sequence[int]
    time: str
    steps: Mapping[Moment, Step]

    @classmethod
    def climbed(cls, tables: Tables, starts: Sequence[int], beside: Collection[str]) -> Ladder:
        """The ladder for the sums of all days by hour, without those of namespaces that are `beside` it."""
        so_far: dict[str, Mapping[str, int]] = defaultdict(lambda: dict.fromkeys(RULES, 0))
        steps: dict[Moment, Step] = {}
        for (scope, hour), units in sorted(_used(tables(), "hour", beside).items()):
            steps[scope, hour], so_far[scope] = _step(so_far[scope], units, starts)
        return cls(starts, "hour", steps)

    def by_minute(self, tables: Tables) -> Ladder:
        """The hours in which a tier begins, minute by minute."""
        so_far = {hour: step.before for hour, step in self.steps.items() if step.is_split}
        steps: dict[Moment, Step] = {}
        for (scope, minute), units in sorted(_used(tables(), "minute", ()).items()):
            if (hour := (scope, minute // 60)) in so_far:
                steps[scope, minute], so_far[hour] = _step(so_far[hour], units, self.starts)
        return Ladder(self.starts, "minute", steps)

    @property
    def split(self) -> set[int]:
        """The hours or minutes in which a tier begins."""
        return {at for (_, at), step in self.steps.items() if step.is_split}


def _step(before: Mapping[str, int], units: Mapping[str, int], starts: Sequence[int]) -> tuple[Step, Mapping[str, int]]:
    """The step of these units, and the units used after it."""
    step = Step(before, {rule: _tier_of(before[rule], units[rule], starts) for rule in RULES})
    return step, {rule: before[rule] + units[rule] for rule in RULES}


def _tier_of(before: int, units: int, starts: Sequence[int]) -> int | None:
    lowest, highest = (_tier_at(unit, starts) for unit in (before, before + max(units - 1, 0)))
    return lowest if lowest == highest else None


def _tier_at(unit: int, starts: Sequence[int]) -> int:
    """The tier of the unit with this number (from 0)."""
    return sum(unit >= start for start in starts) - 1


def billed(rule: str, kind: str, units: int) -> int:
    """The units that the rule bills: the documents' operations have no settlements among them."""
    return 0 if rule == "published" and kind in SETTLEMENTS else units


def place(tables: Tables, minutes: pa.Table, ladder: Ladder, beside: Mapping[str, int]) -> Placed:
    """Put the sums of all days in their places; those of hours in which a tier begins from their `minutes`.

    `beside`: of namespaces that are in no tier, the place of their units behind the tiers.
    """
    placed = Placed(max([len(ladder.starts) - 1, *beside.values()]) + 1)
    _add_tables(placed, tables, ladder, beside)
    on_it = _without(minutes, beside)
    of_days = by_day(on_it, "minute").items
    by_minute = ladder.by_minute(of_days)
    _add_tables(placed, of_days, by_minute, {})
    _add_rows(placed, on_it, by_minute)
    return placed


def _add_tables(placed: Placed, tables: Tables, ladder: Ladder, beside: Mapping[str, int]) -> None:
    """Add the sums that are inside one tier."""
    parts: list[pa.Table] = []
    for day, table in tables():
        in_tiers = _in_tiers(table, ladder, beside)
        _add(placed.days, _summed(in_tiers, "scope", "kind"), ("scope", "kind"), day)
        parts.append(_summed(in_tiers, *KEY))
        if sum(map(len, parts)) > MANY:
            parts = [_together(parts)]
    if parts:
        _add(placed.lines, _together(parts), KEY)


def _used(tables: Iterable[tuple[str, pa.Table]], time: str, beside: Collection[str]) -> dict[Moment, dict[str, int]]:
    """The units of each scope and hour, or minute, under each rule."""
    used: dict[Moment, dict[str, int]] = {}
    for _, table in tables:
        on_it = _without(table, beside)
        published = pc.if_else(_is_in(on_it, "kind", SETTLEMENTS), 0, on_it["billing_units"])
        by_step = on_it.append_column("published", published).group_by(["scope", time], use_threads=False)
        sums = by_step.aggregate([("published", "sum"), ("billing_units", "sum")])
        for scope, at, *units in _rows(sums, "scope", time, "published_sum", "billing_units_sum"):
            used[scope, at] = dict(zip(RULES, units, strict=True))
    return used


def _without(table: pa.Table, namespaces: Collection[str]) -> pa.Table:
    return table.filter(pc.invert(_is_in(table, "namespace", namespaces))) if namespaces else table


def _is_in(table: pa.Table, name: str, values: Collection[str]) -> pa.ChunkedArray:
    return pc.is_in(table[name].cast(pa.string()), pa.array(sorted(values), pa.string()))


def _rows(table: pa.Table, *names: str) -> Iterator[tuple[Any, ...]]:
    return zip(*(table[name].to_pylist() for name in names), strict=True)


def _in_tiers(table: pa.Table, ladder: Ladder, beside: Mapping[str, int]) -> pa.Table:
    """The sums of a day, without the steps in which a tier begins, with the place of their units under each rule."""
    scope_of, time_of = table["scope"].cast(pa.string()), table[ladder.time]
    scopes, times = pc.unique(scope_of), pc.unique(time_of)
    known = [ladder.steps.get(moment) for moment in product(scopes.to_pylist(), times.to_pylist())]
    at = pc.add(pc.multiply(pc.index_in(scope_of, scopes), len(times)), pc.index_in(time_of, times))
    for rule in RULES:
        tiers = pa.array([None if each is None or each.is_split else each.tiers[rule] for each in known], pa.int64())
        column = pc.take(tiers, at)
        for place in sorted(set(beside.values())):
            is_there = _is_in(table, "namespace", [name for name, its in beside.items() if its == place])
            column = pc.if_else(is_there, place, column)
        table = table.append_column(rule, column)
    return table.filter(pc.is_valid(table[RULES[0]]))


def _summed(table: pa.Table, *key: str) -> pa.Table:
    """The sums by the key and the places of their units."""
    names = (*COUNTED, "billing_units")
    table = table.combine_chunks()
    sums = table.group_by([*key, *RULES], use_threads=False).aggregate([(name, "sum") for name in names])
    return sums.rename_columns([name.removesuffix("_sum") for name in sums.column_names])


def _together(parts: Sequence[pa.Table]) -> pa.Table:
    return _summed(pa.concat_tables(parts).unify_dictionaries(), *KEY)


def _add(totals: dict[tuple[str, ...], Total], sums: pa.Table, key: Sequence[str], day: str = "") -> None:
    """Add sums to their totals, those of a day by scope, day and kind."""
    number, kind = len(key), key.index("kind")
    for row in _rows(sums, *key, *RULES, *COUNTED, "billing_units"):
        *counted, units = row[number + len(RULES) :]
        places = zip(RULES, row[number:], strict=False)
        billed_units = {rule: [(place, billed(rule, row[kind], units))] for rule, place in places}
        totals[(row[0], day, row[kind]) if day else row[:number]].add(counted, billed_units)


def _add_rows(placed: Placed, minutes: pa.Table, ladder: Ladder) -> None:
    """Add the rows of minutes in which a tier begins, one after the other."""
    split = minutes.filter(pc.is_in(minutes["minute"], pa.array(sorted(ladder.split), pa.int64())))
    rows = sorted(_rows(split, "scope", "minute", *ORDER_IN_MINUTE, *COUNTED, "billing_units"))
    used: dict[Moment, Mapping[str, int]] = {at: step.before for at, step in ladder.steps.items() if step.is_split}
    for scope, minute, namespace, entity, kind, pair, *counted, units in rows:
        if (before := used.get((scope, minute))) is None:
            continue
        of_row = {rule: billed(rule, kind, units) for rule in RULES}
        in_tiers = {rule: _spread(before[rule], more, ladder.starts) for rule, more in of_row.items()}
        used[scope, minute] = {rule: before[rule] + of_row[rule] for rule in RULES}
        placed.lines[scope, pair, namespace, entity, kind].add(counted, in_tiers)
        placed.days[scope, day_of(minute // 1440), kind].add(counted, in_tiers)


def _spread(before: int, units: int, starts: Sequence[int]) -> list[tuple[int, int]]:
    """By tier how many of the units are in it that are used after others."""
    ends, top = (*starts[1:], before + units), before + units
    parts = ((min(top, end) - max(before, start)) for start, end in zip(starts, ends, strict=True))
    return [(number, part) for number, part in enumerate(parts) if part > 0]
