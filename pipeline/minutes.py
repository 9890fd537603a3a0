"""Sums by minute, for what the hourly table is too coarse for: the hours in which a tier begins, and outages.

An incremental run keeps them beside the hourly table, day by day, until the day's files or the wanted rows change.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline.held import nothing
from pipeline.months import Month
from pipeline.sources import state_of
from pipeline.store import delete, read_notes, write_text
from pipeline.transforms import KEY, SUMS

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows are summed by minute. `condition`: on the hourly table's columns; `days`: the days it can hold on,
    each with what is wanted of it, in a text that differs if these differ; `name`: what they are kept under; `hours`:
    the only hours it can hold in, in seconds since 1970, where that is known.
    """

    name: str
    days: Mapping[str, str]
    condition: Column
    hours: Sequence[int] = ()

    def may_be_in(self, first: int | None, last: int | None) -> bool:
        """Whether rows from the first to the last of these times, in microseconds since 1970, can be among them."""
        if not self.hours or first is None or last is None:
            return True
        return any(first < (hour + 3600) * MILLION and hour * MILLION <= last for hour in self.hours)


def of_hours(starts: Iterable[int], of_scopes: Iterable[tuple[int, str]] = ()) -> Wanted:
    """All rows in these hours, given in seconds since 1970; or, if these are of several scopes, those `of_scopes`: of
    an hour and a scope.
    """
    seconds, places = sorted(starts), sorted(of_scopes)
    condition = F.unix_seconds("hour").isin(*seconds)
    # Of hundreds of scopes, a tier of one or the other begins in nearly every hour.
    if len({scope for _, scope in places}) > 1:
        place = F.concat_ws(" ", F.unix_seconds("hour").cast("string"), "scope")
        condition &= place.isin(*(f"{second} {scope}" for second, scope in places))
    days: dict[str, list[object]] = defaultdict(list)
    for each in places or [(second, "") for second in seconds]:
        days[datetime.fromtimestamp(each[0], UTC).date().isoformat()].append(each)
    wanted_days = {day: json.dumps(hours) for day, hours in days.items()}
    return Wanted("hours", wanted_days, condition, seconds)


def of_kinds(days: Iterable[str], kinds: Iterable[str]) -> Wanted:
    """These kinds, on these days."""
    names = sorted(set(kinds))
    return Wanted("kinds", dict.fromkeys(days, json.dumps(names)), F.col("kind").isin(*names))


@dataclass(frozen=True, slots=True)
class MinuteStore:
    """Where a month's sums are kept. `fingerprints`: day → what its files are like; empty: it may differ tomorrow."""

    spark: SparkSession
    folder: str
    month: Month
    fingerprints: Mapping[str, str]

    def get(self, wanted: Wanted, compute: Callable[[Wanted], DataFrame]) -> DataFrame:
        """The wanted sums; only those days that are not kept as they are wanted are computed, and kept."""
        wanted_days = {day: what for day, what in wanted.days.items() if day in self.fingerprints}
        notes = {day: [self.fingerprints[day], what] for day, what in wanted_days.items()}
        known = self._known(wanted.name)
        stale = {
            day for day, note in notes.items() if not note[0] or known.get(day) != [*note, self._state(wanted, day)]
        }
        if stale:
            self._renew(replace(wanted, days={day: wanted_days[day] for day in stale}), compute, known, notes)
        schema = f"{', '.join(f'{name} string' for name in KEY)}, hour timestamp, minute timestamp"
        schema = f"{schema}, {', '.join(f'{name} long' for name in SUMS)}, date string"
        if not wanted_days:
            return nothing(self.spark, schema)
        return self.spark.read.schema(schema).parquet(self._place(wanted.name)).where(F.col("date").isin(*wanted_days))

    def _renew(
        self,
        wanted: Wanted,
        compute: Callable[[Wanted], DataFrame],
        known: Mapping[str, list[str]],
        notes: Mapping[str, list[str]],
    ) -> None:
        manifest, place = self._manifest(wanted.name), self._place(wanted.name)
        kept = {day: note for day, note in known.items() if day not in wanted.days}
        write_text(self.spark, manifest, json.dumps(kept))  # first: a run that breaks off here computes them again
        for day in wanted.days:  # a day of which nothing is left would keep its old sums
            delete(self.spark, f"{place}/date={day}")
        compute(wanted).write.mode("overwrite").partitionBy("date").parquet(place)
        now_kept = {day: [*notes[day], self._state(wanted, day)] for day in wanted.days}
        write_text(self.spark, manifest, json.dumps(kept | now_kept))

    def _state(self, wanted: Wanted, day: str) -> str:
        return state_of(self.spark, f"{self._place(wanted.name)}/date={day}")

    def _known(self, name: str) -> dict[str, list[str]]:
        return read_notes(self.spark, self._manifest(name))

    def _place(self, name: str) -> str:
        return f"{self.folder}/_minutes/{self.month}-{name}"

    def _manifest(self, name: str) -> str:
        return f"{self.folder}/_minutes/_{self.month}-{name}.json"
