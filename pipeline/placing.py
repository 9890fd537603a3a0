"""The billable units of a month in their price tiers: each in the place of its tier, under each rule.

An hour inside one tier needs no more detail. The few hours in which a tier begins are taken by minute, and in a minute
row by row: by namespace, entity, kind and pair. All arithmetic uses whole units.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.schemas import KEY, RULES, SETTLEMENTS
from pipeline.usage.folder import day_of

COUNTED = ("operations", "messages", "bytes")
ORDER_IN_MINUTE = ("namespace", "entity", "kind", "pair")
MANY = 2_000_000
"""Sums that are held at once, unless the report has more rows."""
Hour = tuple[str, int]
"""A billing scope and the number of an hour since 1970."""
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
    """An hour of a scope on the ladder: by rule the units used `before` it in the month, and its tier; None where one
    begins in it.
    """

    before: Mapping[str, int]
    tiers: Mapping[str, int | None]

    @property
    def is_split(self) -> bool:
        return None in self.tiers.values()


@dataclass(frozen=True, slots=True)
class Ladder:
    """The hours of each scope in the tiers that begin at `starts`."""

    starts: Sequence[int]
    hours: Mapping[Hour, Step]

    @classmethod
    def climbed(cls, tables: Tables, starts: Sequence[int], beside: Collection[str]) -> Ladder:
        """The ladder for the sums of all days, without those of namespaces that are `beside` it."""
        used = _used(tables(), beside)
        so_far: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys(RULES, 0))
        hours: dict[Hour, Step] = {}
        for (scope, hour), units in sorted(used.items()):
            before = so_far[scope]
            hours[scope, hour] = Step(before, {rule: _tier_of(before[rule], units[rule], starts) for rule in RULES})
            so_far[scope] = {rule: before[rule] + units[rule] for rule in RULES}
        return cls(starts, hours)

    @property
    def split(self) -> set[int]:
        """The hours in which a tier begins."""
        return {hour for (_, hour), step in self.hours.items() if step.is_split}


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
    parts: list[pa.Table] = []
    for day, table in tables():
        in_tiers = _in_tiers(table, ladder, beside)
        _add(placed.days, _summed(in_tiers, "scope", "kind"), ("scope", "kind"), day)
        parts.append(_summed(in_tiers, *KEY))
        if sum(map(len, parts)) > MANY:
            parts = [_together(parts)]
    if parts:
        _add(placed.lines, _together(parts), KEY)
    _add_minutes(placed, minutes, ladder, beside)
    return placed


def _used(tables: Iterable[tuple[str, pa.Table]], beside: Collection[str]) -> dict[Hour, dict[str, int]]:
    """The units of each scope and hour under each rule."""
    used: dict[Hour, dict[str, int]] = {}
    for _, table in tables:
        on_it = table.filter(pc.invert(_is_in(table, "namespace", beside)))
        without = on_it.filter(pc.invert(_is_in(on_it, "kind", SETTLEMENTS)))
        for rule, billed in zip(RULES, (without, on_it), strict=True):
            sums = billed.group_by(["scope", "hour"], use_threads=False).aggregate([("billing_units", "sum")])
            for scope, hour, units in _rows(sums, "scope", "hour", "billing_units_sum"):
                used.setdefault((scope, hour), dict.fromkeys(RULES, 0))[rule] += units
    return used


def _is_in(table: pa.Table, name: str, values: Collection[str]) -> pa.ChunkedArray:
    return pc.is_in(table[name].cast(pa.string()), pa.array(sorted(values), pa.string()))


def _rows(table: pa.Table, *names: str) -> Iterator[tuple[Any, ...]]:
    return zip(*(table[name].to_pylist() for name in names), strict=True)


def _in_tiers(table: pa.Table, ladder: Ladder, beside: Mapping[str, int]) -> pa.Table:
    """The sums of a day, without hours in which a tier begins, with the place of their units under each rule."""
    scopes, first = pc.unique(table["scope"].cast(pa.string())), pc.min(table["hour"]).as_py() or 0
    hours = range(first, first + 24)
    known = [ladder.hours.get((scope, hour)) for scope in scopes.to_pylist() for hour in hours]
    at = pc.index_in(table["scope"].cast(pa.string()), scopes)
    at = pc.add(pc.multiply(at, len(hours)), pc.subtract(table["hour"], first))
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


def _add_minutes(placed: Placed, minutes: pa.Table, ladder: Ladder, beside: Collection[str]) -> None:
    """Add the rows of hours in which a tier begins, one after the other."""
    on_it = minutes.filter(pc.invert(_is_in(minutes, "namespace", beside)))
    rows = sorted(_rows(on_it, "scope", "minute", *ORDER_IN_MINUTE, *COUNTED, "billing_units"))
    used: dict[Hour, dict[str, int]] = {}
    for scope, minute, namespace, entity, kind, pair, *counted, units in rows:
        hour = scope, minute // 60
        if hour not in ladder.hours or not ladder.hours[hour].is_split:
            continue
        before = used.setdefault(hour, dict(ladder.hours[hour].before))
        of_row = {rule: billed(rule, kind, units) for rule in RULES}
        in_tiers = {rule: _spread(before[rule], more, ladder.starts) for rule, more in of_row.items()}
        used[hour] = {rule: before[rule] + of_row[rule] for rule in RULES}
        placed.lines[scope, pair, namespace, entity, kind].add(counted, in_tiers)
        placed.days[scope, day_of(minute // 1440), kind].add(counted, in_tiers)


def _spread(before: int, units: int, starts: Sequence[int]) -> list[tuple[int, int]]:
    """By tier how many of the units are in it that are used after others."""
    ends, top = (*starts[1:], before + units), before + units
    parts = ((min(top, end) - max(before, start)) for start, end in zip(starts, ends, strict=True))
    return [(number, part) for number, part in enumerate(parts) if part > 0]
