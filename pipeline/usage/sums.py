"""The sums of days as tables: split, checked against their files, and counted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.schemas import KEY, SUMS
from pipeline.usage.counts import Counts
from pipeline.usage.files import SourceFile
from pipeline.usage.folder import day_of
from pipeline.usage.table import Day

if TYPE_CHECKING:
    from pipeline.usage.summing import Odd, Records

ZERO_BYTE, REPLACEMENT = "\0", "\ufffd"
_NAMES, _NUMBERS = [(name, pa.string()) for name in KEY], [(name, pa.int64()) for name in SUMS]
NO_MINUTES = pa.schema([*_NAMES, ("minute", pa.int64()), *_NUMBERS]).empty_table()
NO_SUMS = pa.schema([*_NAMES, *((name, pa.int64()) for name in ("hour", *SUMS, "read", "misplaced"))]).empty_table()


def require_sum(records: Records, sums: pa.Table) -> tuple[list[Odd], list[dict[str, str]]]:
    """The rows that are not in the sums, and examples of them. Raises InputError where others are missing."""
    read, misplaced = (pc.sum(sums[name]).as_py() or 0 for name in ("read", "misplaced"))
    if not misplaced and read == sum(file.rows for file in records.files):
        return [], []
    odd = records.odd()
    records.require_all(read + sum(each.rows for each in odd if each.reason or each.day not in records.days))
    return odd, records.examples() if any(each.reason for each in odd) else []


def add_up(minutes: pa.Table, day: Day, hours: Collection[int]) -> bool:
    """Whether the sums by minute of these hours add up to those by hour: both are of the same records."""
    sums, these = day.sums(), pa.array(sorted(hours), pa.int64())
    by_hour = sums.filter(pc.is_in(sums["hour"], these))
    by_minute = minutes.filter(pc.is_in(pc.divide(minutes["minute"], 60), these))
    return all(pc.sum(by_minute[name]) == pc.sum(by_hour[name]) for name in ("rows", "billing_units"))


def by_day(sums: pa.Table, time: str = "hour") -> dict[str, pa.Table]:
    """The sums of each day; what has no time is of a later run."""
    sums = sums.filter(pc.is_valid(sums[time]))
    days = pc.divide(sums[time], 24 if time == "hour" else 1440)
    return {day_of(number): sums.filter(pc.equal(days, number)) for number in pc.unique(days).to_pylist()}


def storable(sums: pa.Table) -> pa.Table:
    """The sums of which a row is left, with the zero bytes of entities replaced, which databases reject."""
    sums = sums.filter(pc.not_equal(sums["rows"], 0))
    place = sums.column_names.index("entity")
    return sums.set_column(place, "entity", pc.replace_substring(sums["entity"], ZERO_BYTE, REPLACEMENT))


def elsewhere(day: str, odd: Iterable[Odd]) -> dict[str, list[str]]:
    """Of the files in the day's folder the other days of which they have good rows."""
    found: dict[str, set[str]] = defaultdict(set)
    for each in odd:
        if each.file.startswith(f"date={day}/") and each.day is not None and not each.reason:
            found[each.file].add(day_of(each.day))
    return {name: sorted(days - {day}) for name, days in found.items() if days - {day}}


def counts_of(day: str, root: str, files: Mapping[str, SourceFile | str], sums: pa.Table, odd: Iterable[Odd]) -> Counts:
    """The results of the rows of a day, and of the files in its folder."""
    own = f"date={day}/"
    reasons: Counter[str] = Counter()
    for each in odd:
        if each.reason and each.file.startswith(own):
            reasons[each.reason] += each.rows
    accepted, good = (pc.sum(sums[name]).as_py() or 0 for name in ("rows", "read"))
    rejected = [(f"{root}/{name}", why) for name, why in sorted(files.items()) if isinstance(why, str)]
    return Counts(
        read=good + reasons.total(),
        accepted=accepted,
        copies=good - accepted,
        quarantined=reasons.total(),
        files=sum(name.startswith(own) for name in files),
        files_rejected=sum(path.startswith(f"{root}/{own}") for path, _ in rejected),
        reasons=dict(reasons),
        rejected=rejected,
    )
