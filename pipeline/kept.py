"""The hourly table as it is kept between runs, under USAGE_DIR/hourly/: only days whose files changed are looked at.

A day that only grew is added to; another is summed again. Copies of a record are found within a day, where those of the
library are, because its ids name their day. Where days may have an id in common (`pipeline.strays`), the whole month is
summed instead. Beside each day's hours stands what they come to in brief, from which most of a month is priced.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Set
from dataclasses import asdict, fields, replace
from datetime import datetime
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline import strays, transforms
from pipeline.additions import Added, add
from pipeline.checks import FUTURE
from pipeline.counts import Counts
from pipeline.counts import total as total_counts
from pipeline.errors import InputError
from pipeline.held import hold, release, together
from pipeline.hourly import (
    HourlyTable,
    all_rows,
    chosen,
    count_files,
    counted_by_day,
    full,
    read_brief,
    read_hours,
    reason_of,
    sum_up,
    valid_rows,
    with_reasons,
)
from pipeline.minutes import MinuteStore, Wanted
from pipeline.months import Month
from pipeline.progress import Progress
from pipeline.schemas import KEPT_SHAPE, USAGE
from pipeline.sources import (
    NOTHING_MORE,
    Listing,
    RejectedFile,
    SourceFile,
    digest,
    list_month,
    read_files,
    state_of,
)
from pipeline.store import read_notes, write_text

ABOUT = ("shape", "fingerprint", "marks", "footers", "strays", "kept")
"""The other fields of a day's entry. `kept`: the state of what is kept of the day: without one of these files, the sums
would be too low, and nobody would see it.
"""
OF_AN_ENTRY = {*ABOUT, *(field.name for field in fields(Counts))}


def incremental(
    spark: SparkSession,
    root: str,
    table: str,
    month: Month,
    now: datetime,
    progress: Progress,
    left_out: Mapping[str, str] = NOTHING_MORE,
) -> HourlyTable:
    """The month's table, kept under `table`; only days whose files differ from the last run's are summed again."""
    manifest = f"{table}/_{month}.json"
    known = _known_days(spark, table, manifest)
    fingerprints = {day: entry["fingerprint"] for day, entry in known.items()}
    listing = list_month(spark, root, month, USAGE, fingerprints, left_out=left_out, footers=_footers(known))
    kept = {day: entry for day, entry in known.items() if listing.fingerprints.get(day) == entry["fingerprint"]}
    changed = {day: fingerprint for day, fingerprint in listing.fingerprints.items() if day not in kept}
    if changed:
        write_text(spark, manifest, json.dumps(kept))  # first: a run that breaks off here sums these days again
        kept |= _renewed(spark, listing, table, changed, known, month, now, progress)
        shared = _days_with_shared_ids(spark, table, kept, set(changed))
        for day in shared:  # no fingerprint: it is looked at again, until nothing is shared
            kept[day] = {**kept[day], "fingerprint": ""}
        write_text(spark, manifest, json.dumps(kept))
        if shared:
            return full(spark, root, month, now, progress, left_out)
    days = {day: _counts_of(entry) for day, entry in kept.items()}
    filled = [day for day, counts in days.items() if counts.accepted]
    rows = sum(counts.accepted for counts in days.values())
    hours, brief = (
        together(frame, rows) for frame in (read_hours(spark, table, filled), read_brief(spark, _brief(table), filled))
    )
    outside = count_files(replace(listing, files=(), rejected=tuple(file for file in listing.rejected if not file.day)))
    counts = total_counts([outside, *days.values()])

    def compute(wanted: Wanted) -> DataFrame:
        days = set(wanted.days)
        there = list_month(spark, root, month, USAGE, only=days, left_out=left_out, footers=_footers(kept))

        def rows_of(files: Listing, only: Wanted | None) -> DataFrame:
            rows = all_rows(spark, files, transforms.WITHIN_A_DAY)
            rows = rows if only is None else chosen(rows, only)  # before each is checked, which takes longer
            valid = rows.where(reason_of(month, now).isNull())
            return hold(valid) if files.rows <= transforms.FEW else valid  # it is looked through for copies first

        return _minutes_again(rows_of, hours, _as_before(there, listing), wanted)

    def minutes(wanted: Wanted) -> DataFrame:
        looked_at = {day: _looked_at(entry, wanted) for day, entry in kept.items()}
        return MinuteStore(spark, table, month, looked_at).get(wanted, compute)

    return HourlyTable(
        hours=hours,
        days=brief.where("hour is null"),
        paces=brief.where("hour is not null"),
        counts=counts,
        minutes=minutes,
    )


def _brief(table: str) -> str:
    return f"{table}/_brief"


def _strays(table: str) -> str:
    return f"{table}/_strays"


def _days_with_shared_ids(
    spark: SparkSession, table: str, kept: Mapping[str, Mapping[str, object]], changed: Set[str]
) -> set[str]:
    having = {day for day, entry in kept.items() if entry["strays"]}
    return strays.days_with_shared_ids(spark, _strays(table), having, having & changed)


def _known_days(spark: SparkSession, table: str, manifest: str) -> dict[str, dict[str, object]]:
    """The days of which everything is as it was kept; others are summed again."""
    entries = {day: entry for day, entry in read_notes(spark, manifest).items() if _is_entry(entry)}
    return {day: entry for day, entry in entries.items() if entry["kept"] == _state(spark, table, day, entry["strays"])}


def _is_entry(entry: Any) -> bool:
    """Whether it is an entry of today's shape."""
    return isinstance(entry, dict) and entry.get("shape") == KEPT_SHAPE and entry.keys() == OF_AN_ENTRY


def _state(spark: SparkSession, table: str, day: str, strays_of_day: object) -> list[str]:
    places = [table, _brief(table), *([_strays(table)] if strays_of_day else [])]
    return [state_of(spark, f"{place}/date={day}") for place in places]


def _footers(known: Mapping[str, Mapping[str, Any]]) -> dict[tuple[str, str], tuple[Any, ...]]:
    """What the footers of files said, by day and the file's mark: files of two days can have the same mark."""
    return {
        (day, entry["marks"][name]): tuple(said)
        for day, entry in known.items()
        for name, said in entry["footers"].items()
        if name in entry["marks"]
    }


def _looked_at(entry: Mapping[str, Any], wanted: Wanted) -> str:
    """A digest of the day's files that can have what is wanted: a file of another hour changes nothing. The day's
    fingerprint where a record in another hour can be a version of one that is wanted.
    """
    if not entry["fingerprint"] or entry["strays"]:
        return str(entry["fingerprint"])
    footers = entry["footers"]
    some = {
        name: mark
        for name, mark in entry["marks"].items()
        if name not in footers or wanted.may_be_in(*footers[name][-2:])
    }
    return digest(some)


def _counts_of(entry: Mapping[str, object]) -> Counts:
    return Counts(**{name: value for name, value in entry.items() if name not in ABOUT})  # type: ignore[arg-type]


def _renewed(
    spark: SparkSession,
    listing: Listing,
    table: str,
    changed: Mapping[str, str],
    known: Mapping[str, Mapping[str, object]],
    month: Month,
    now: datetime,
    progress: Progress,
) -> dict[str, dict[str, object]]:
    """Brings the changed days into the table and returns their entries; those that only grew are added to."""
    grown = {day: known[day] for day in changed if day in known and _only_grew(known[day], listing.marks[day])}
    added = _grow(spark, listing, table, grown, month, now, progress) if grown else {}
    rest = {day for day in changed if day not in added}
    summed = _renew(spark, _of_days(listing, rest), table, rest, month, now, progress) if rest else {}
    found = added | summed
    files = {day: [file for file in listing.files if file.day == day] for day in found}
    # What may look different tomorrow gets no fingerprint, so that it is looked at again.
    return {
        day: {
            "shape": KEPT_SHAPE,
            "fingerprint": "" if FUTURE in counts.reasons or month.start > now else changed[day],
            "marks": dict(listing.marks[day]),
            "footers": {file.path.rsplit("/", 1)[-1]: file.of_its_footer for file in files[day]},
            "strays": strays_of_day,
            "kept": _state(spark, table, day, strays_of_day),
            **asdict(counts),
        }
        for day, (counts, strays_of_day) in found.items()
    }


def _only_grew(entry: Mapping[str, object], marks: Mapping[str, str]) -> bool:
    """Whether every file the day had is there as it was, and the rows in it would be judged as they were."""
    before = entry.get("marks")
    return bool(entry["fingerprint"]) and isinstance(before, dict) and before.items() <= marks.items()


def _grow(
    spark: SparkSession,
    listing: Listing,
    table: str,
    grown: Mapping[str, Mapping[str, object]],
    month: Month,
    now: datetime,
    progress: Progress,
) -> dict[str, tuple[Counts, int]]:
    """Adds to the days what came to them, and returns their counts and strays; nothing where that is too much, or
    where the sums would not add up.
    """
    before = {day: _counts_of(entry) for day, entry in grown.items()}
    of_days = _of_days(listing, set(grown))
    known = {(day, name) for day, entry in grown.items() for name in cast("Mapping[str, str]", entry["marks"])}
    new = _files_where(of_days, lambda file: (file.day, file.path.rsplit("/", 1)[-1]) not in known)
    old = _files_where(of_days, lambda file: (file.day, file.path.rsplit("/", 1)[-1]) in known)
    if new.rows > transforms.FEW:
        return {}
    progress("adding what came", 0.2, new.rows)
    kept = read_hours(spark, table, [day for day, counts in before.items() if counts.accepted])
    kept = together(kept, sum(counts.accepted for counts in before.values()))
    identity = transforms.WITHIN_A_DAY
    came_valid = hold(valid_rows(spark, new, month, now, identity))
    names_minutes = new.ids_name_their_minute or came_valid.where(strays.is_stray()).isEmpty()
    if names_minutes and not any(entry["strays"] for entry in grown.values()):
        old = _of_the_minutes(old, new)
    rows = transforms.hashed(read_files(spark, old, USAGE), identity) if old.files else None
    added = add(kept, rows, came_valid, reason_of(month, now).isNull())
    came = {
        day: Counts(read=sum(file.rows for file in new.files if file.day == day), accepted=added.rows.get(day, 0))
        for day in grown
    }
    if suspect := {day: counts for day, counts in came.items() if not counts.adds_up}:
        came |= with_reasons(spark, new, reason_of(month, now), suspect)
    after = {day: _together(day, before[day], came[day], count_files(_of_days(new, {day})), added) for day in grown}
    if not all(counts.adds_up for counts in after.values()):
        return {}
    if any(added.strays.values()):
        strays.keep(came_valid, _strays(table), "append")
    _write(added.hours, table)
    return {day: (counts, added.strays.get(day, 0)) for day, counts in after.items()}


def _together(day: str, before: Counts, came: Counts, files: Counts, added: Added) -> Counts:
    """The results of the day's rows, including the new ones."""
    parts = total_counts([before, came, files])
    return replace(parts, accepted=added.accepted.get(day, 0), copies=before.copies + added.copies.get(day, 0))


def _files_where(listing: Listing, which: Callable[[SourceFile | RejectedFile], bool]) -> Listing:
    return replace(listing, files=tuple(filter(which, listing.files)), rejected=tuple(filter(which, listing.rejected)))


def _of_the_minutes(old: Listing, new: Listing) -> Listing:
    """The old files that can have a minute in common with a new one: the others cannot share an id with it if all ids
    name their minute.
    """
    return replace(old, files=tuple(file for file in old.files if any(file.may_meet(each) for each in new.files)))


def _as_before(again: Listing, listing: Listing) -> Listing:
    """The files of the first listing that still exist unchanged; newer files are left to the next run."""

    def is_known(file: SourceFile | RejectedFile) -> bool:
        name = file.path.rsplit("/", 1)[-1]
        marks = (each.marks.get(file.day, {}).get(name) for each in (again, listing))
        return len(set(marks)) == 1

    return _files_where(again, is_known)


def _of_days(listing: Listing, days: Set[str]) -> Listing:
    return _files_where(listing, lambda file: file.day in days)


def _renew(
    spark: SparkSession,
    listing: Listing,
    table: str,
    days: Set[str],
    month: Month,
    now: datetime,
    progress: Progress,
) -> dict[str, tuple[Counts, int]]:
    """Sums the days, whose files are listed, into the table, and returns their counts and strays."""
    hours, clean, by_day = sum_up(spark, listing, month, now, progress, transforms.WITHIN_A_DAY)
    of_days = hours.where("strays > 0").groupBy("date").agg(F.sum("strays").alias("n"))
    found = counted_by_day(strays=of_days)["strays"]
    if found:
        strays.keep(clean.where(F.col("date").isin(*found)), _strays(table), "overwrite")
    _write(hours, table)
    counts = {day: total_counts([count_files(_of_days(listing, {day})), by_day.get(day, Counts())]) for day in days}
    return {day: (of_day, found.get(day, 0)) for day, of_day in counts.items()}


def _write(hours: DataFrame, table: str) -> None:
    # The brief first: once the table is written over, Spark forgets the hours that were made from it, and would add
    # what came to days that have it already.
    for frame, place in ((transforms.in_brief(hours), _brief(table)), (hours, table)):
        frame.write.mode("overwrite").partitionBy("date").parquet(place)
    release(hours)


def _minutes_again(
    rows_of: Callable[[Listing, Wanted | None], DataFrame], hours: DataFrame, listing: Listing, wanted: Wanted
) -> DataFrame:
    """The wanted ones of the rows, without copies, by minute.

    Copies of a record report the same fact, so only the selected rows are searched for them, in the files that can have
    any by what their footers say. Where a writer gave one identity to facts of several hours or kinds, more rows are
    left than the table has, and all are looked through. Raises InputError where they are not as many as the table has
    even so.
    """
    some = replace(listing, files=tuple(file for file in listing.files if wanted.may_be_in(file.first, file.last)))
    known = hours.where(F.col("date").isin(*wanted.days) & wanted.condition).agg(F.sum("rows"))
    for is_all in (False, True):
        files = listing if is_all else some
        rows = _each_once(rows_of(files, None if is_all else wanted), files)
        few = chosen(rows, wanted) if is_all else rows
        found = hold(transforms.by_minute(few))
        if len(known.union(found.agg(F.sum("rows"))).distinct().collect()) == 1:
            return found
        release(found)
    raise InputError(
        f"The minutes of {min(wanted.days)} to {max(wanted.days)} do not add up to the hours that are kept: "
        "their files changed while they were read; the next run looks again, and sums everything if hourly/ is deleted."
    )


def _each_once(rows: DataFrame, listing: Listing) -> DataFrame:
    if not listing.may_repeat.rows:
        return transforms.without_copies(rows, transforms.no_copies(rows.sparkSession))
    return transforms.without_copies(rows, transforms.find_copies(rows, listing.rows, transforms.WITHIN_A_DAY))
