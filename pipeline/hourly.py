"""The hourly table: a month's usage summed by hour, every fact counted once, every row accounted for.

A full run sums everything and finds copies of a record anywhere in the month; `pipeline.kept` describes an incremental
run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import reduce
from urllib.parse import unquote

from pyspark.errors import ArithmeticException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline import transforms
from pipeline.checks import is_good_but_for_its_id, is_good_hour, is_good_in_its_hour, usage_reason
from pipeline.counts import Counts, require_sum
from pipeline.counts import total as total_counts
from pipeline.held import FEW_ROWS, hold, nothing, release, together
from pipeline.minutes import Wanted
from pipeline.months import Month
from pipeline.plans import MANY_SUMS, for_few_rows, for_sums
from pipeline.progress import Progress
from pipeline.schemas import RULES, USAGE, ddl
from pipeline.sources import NOTHING_MORE, Listing, list_month, read_files

EXAMPLES_A_DAY = 20
MOST_OF_AN_ID = 200
CLOCK_SKEW = timedelta(hours=1)
FEW_HELD, HELD_OF_A_FILE = 100_000, 500
"""The rows, and the rows of each file, up to which those of a month are held once they are read and checked. To hold a
row takes as long as to read it seven times, and to open a file as long as to read some hundred rows.
"""


@dataclass(frozen=True, slots=True)
class HourlyTable:
    """The hours, the `paces` (see `transforms`) and, where they are kept, the sums of `days` from them, the results of
    the rows, and a way to get some of the sums by minute. The hours may be in parts: several rows of one KEY and hour.
    `are_few`: whether what is made of the hours is cheaper with plans for few rows than with those of the session.
    """

    hours: DataFrame
    paces: DataFrame
    counts: Counts
    minutes: Callable[[Wanted], DataFrame]
    days: DataFrame | None = None
    are_few: bool = False

    def where(self, condition: Column) -> HourlyTable:
        """The part of the table whose `namespace` satisfies the condition; the counts are still those of the whole
        table.
        """
        return replace(
            self,
            hours=self.hours.where(condition),
            paces=self.paces.where(condition),
            minutes=lambda wanted: self.minutes(wanted).where(condition),
            days=None if self.days is None else self.days.where(condition),
        )

    @property
    def coarsest(self) -> DataFrame:
        """The days, or else the hours."""
        return self.hours if self.days is None else self.days


def full(
    spark: SparkSession,
    root: str,
    month: Month,
    now: datetime,
    progress: Progress,
    left_out: Mapping[str, str] = NOTHING_MORE,
    *,
    by_namespace: bool = True,
) -> HourlyTable:
    """The month's table, from all of its files. `by_namespace`: whether a part of it may be asked for with `where`;
    with a thousand billing scopes, the `paces` are then as many times more as these have namespaces.
    """
    listing = list_month(spark, root, month, USAGE, left_out=left_out)
    if not listing.rows:
        no_minutes = transforms.by_minute(nothing(spark, ddl(USAGE)))
        none = read_hours(spark, "", [])
        no_paces = transforms.paces(none, by_namespace=by_namespace)
        return HourlyTable(none, no_paces, count_files(listing), lambda wanted: no_minutes)
    is_large = not are_held(listing)
    expected = transforms.expected_hours(read_files(spark, listing, USAGE), listing.rows) if is_large else 0
    valid, copies = _looked_through(spark, listing, month, now, progress, transforms.ANYWHERE)
    is_summed, are_few = expected * 3 <= listing.rows, False
    if not is_summed:
        hours = _facts_of_many(spark, listing, month, now, copies)
    elif is_large:
        hours, are_few = _hours_of_many(spark, listing, month, now, copies, transforms.ANYWHERE, expected)
    else:
        hours = hold(transforms.hourly_without_copies(valid, copies))
    with for_few_rows(spark) if are_few else nullcontext():
        paces = hold(transforms.paces(hours, by_namespace=by_namespace))
        by_day = _by_day(spark, listing, month, now, paces, copies)
    if is_large and not any(counts.quarantined for counts in by_day.values()):
        # All are good: to find that again takes as long as to read them.
        hours = hours if is_summed else transforms.facts_of_hours(all_rows(spark, listing), copies)
        clean = _each_once(listing, copies, lambda files: all_rows(spark, files))
    elif is_large:
        clean = _each_once(listing, copies, lambda files: valid_rows(spark, files, month, now))
    else:
        clean = transforms.without_copies(valid, copies)
    return HourlyTable(
        hours=hours,
        paces=paces,
        counts=total_counts([count_files(listing), *by_day.values()]),
        minutes=lambda wanted: hold(transforms.by_minute(chosen(clean, wanted))),
        are_few=are_few,
    )


def are_held(listing: Listing) -> bool:
    """Whether the rows of the files are few enough to be held, so that each file is opened once only."""
    return listing.rows <= min(FEW_HELD + HELD_OF_A_FILE * len(listing.files), transforms.FEW)


def sum_up(
    spark: SparkSession,
    listing: Listing,
    month: Month,
    now: datetime,
    progress: Progress,
    identity: Sequence[str],
) -> tuple[DataFrame, DataFrame, dict[str, Counts]]:
    """The files' hours, their rows without copies, and the counts of each day."""
    if listing.ids_name_their_minute:  # no id is on two days, so strays need not be counted
        identity = transforms.ANYWHERE
    valid, copies = _looked_through(spark, listing, month, now, progress, identity)
    if not are_held(listing):
        hours, _ = _hours_of_many(spark, listing, month, now, copies, identity)
        clean = _each_once(listing, copies, lambda files: valid_rows(spark, files, month, now, identity))
    else:
        hours = hold(transforms.hourly_without_copies(valid, copies, identity))
        clean = transforms.without_copies(valid, copies)
    return hours, clean, _by_day(spark, listing, month, now, hours, copies)


def _each_once(listing: Listing, copies: transforms.Copies, rows_of: Callable[[Listing], DataFrame]) -> DataFrame:
    """The rows of the files without copies, which are taken from those files alone that were looked through: a good row
    of another one can share a hash with bad rows of these.
    """
    some, none = listing.may_repeat, transforms.no_copies(copies.hashes.sparkSession)
    looked_through = set(some.files)
    others = replace(listing, files=tuple(file for file in listing.files if file not in looked_through))
    if not some.files:
        return transforms.without_copies(rows_of(listing), none)
    searched = transforms.without_copies(rows_of(some), copies)
    return searched.unionByName(transforms.without_copies(rows_of(others), none)) if others.files else searched


def _facts_of_many(
    spark: SparkSession, listing: Listing, month: Month, now: datetime, copies: transforms.Copies
) -> DataFrame:
    """The records of the files as they are. They are asked for an id only if some have none."""
    if copies.count and not copies.hashes.where(f"h = {transforms.NO_ID}").isEmpty():
        copies = replace(copies, counted=copies.suspects)
        return transforms.facts_of_hours(valid_rows(spark, listing, month, now), copies)
    rows = all_rows(spark, listing).where(is_good_but_for_its_id(_not_after(month, now)))
    return transforms.facts_of_hours(rows, copies)


def _hours_of_many(
    spark: SparkSession,
    listing: Listing,
    month: Month,
    now: datetime,
    copies: transforms.Copies,
    identity: Sequence[str],
    expected: int = MANY_SUMS,
) -> tuple[DataFrame, bool]:
    """The hours of the files and whether they are few. What rows have in common is checked of their sum; whether they
    have an id, of the copies, so that only these are asked for it.
    """
    rows = all_rows(spark, listing, identity).where(is_good_in_its_hour(_not_after(month, now)))
    with for_sums(spark, expected):
        try:
            sums = hold(transforms.hourly(rows, identity).where(is_good_hour()))
            number = sums.count()
        except ArithmeticException:  # the sum of bad rows can overflow: each row is checked before it is summed
            sums = hold(transforms.hourly(valid_rows(spark, listing, month, now, identity), identity))
            number = sums.count()
            copies = replace(copies, counted=copies.suspects)
    are_few = number <= FEW_ROWS and copies.few
    if copies.count:
        with for_few_rows(spark) if are_few else nullcontext():
            sums = hold(transforms.corrected(together(sums, number), copies.counted, copies.winners, identity))
    return sums, are_few


def _looked_through(
    spark: SparkSession,
    listing: Listing,
    month: Month,
    now: datetime,
    progress: Progress,
    identity: Sequence[str],
) -> tuple[DataFrame, transforms.Copies]:
    """The good rows of the files, and which are copies."""
    some = listing.may_repeat
    progress("finding repeated records", 0.05, some.rows)
    valid = valid_rows(spark, listing, month, now, identity)
    if are_held(listing):
        valid = hold(valid)
    if not some.rows:
        copies = transforms.no_copies(spark)
    elif are_held(listing):
        copies = transforms.find_copies(valid, listing.rows, identity)
    else:  # of all these rows the id alone is read, and of the few that share one whether they are good
        rows = all_rows(spark, some, identity)
        good, good_but_for_its_id = reason_of(month, now).isNull(), is_good_but_for_its_id(_not_after(month, now))
        copies = transforms.find_copies(rows, some.rows, identity, good, good_but_for_its_id)
    progress("summing by hour", 0.4, listing.rows)
    return valid, copies


def valid_rows(
    spark: SparkSession, listing: Listing, month: Month, now: datetime, identity: Sequence[str] = transforms.ANYWHERE
) -> DataFrame:
    return all_rows(spark, listing, identity).where(reason_of(month, now).isNull())


def all_rows(spark: SparkSession, listing: Listing, identity: Sequence[str] = transforms.ANYWHERE) -> DataFrame:
    return transforms.hashed(read_files(spark, listing, USAGE), identity)


def reason_of(month: Month, now: datetime) -> Column:
    """The reason function of a month."""
    return usage_reason(_not_after(month, now))


def _not_after(month: Month, now: datetime) -> datetime | None:
    """In a future month no minute is refused as being in the future."""
    return now + CLOCK_SKEW if month.start <= now else None


def _by_day(
    spark: SparkSession,
    listing: Listing,
    month: Month,
    now: datetime,
    sums: DataFrame,
    copies: transforms.Copies,
) -> dict[str, Counts]:
    """The result of each day's rows, which the `sums` count. Footers give the number of rows; if some are missing, the
    cause is determined.
    """
    read = {day: sum(file.rows for file in listing.files if file.day == day) for day in {f.day for f in listing.files}}
    summed = sums.groupBy("date").agg(F.sum("rows").alias("n"))
    rows = {"suspects": copies.suspects, "winners": copies.winners} if copies.count else {}
    counted = counted_by_day(accepted=summed, **{name: each.groupBy("date").count() for name, each in rows.items()})
    accepted, winners = counted["accepted"], counted.get("winners", {})
    repeated = {day: n - winners.get(day, 0) for day, n in counted.get("suspects", {}).items()}
    days = {day: Counts(read=n, accepted=accepted.get(day, 0), copies=repeated.get(day, 0)) for day, n in read.items()}
    suspect = [day for day, counts in days.items() if not counts.adds_up]
    if suspect:
        days |= with_reasons(spark, listing, reason_of(month, now), {day: days[day] for day in suspect})
    for day, counts in days.items():
        if not counts.adds_up:
            require_sum(day, counts, _liars(spark, listing, day))
    return days


def _liars(spark: SparkSession, listing: Listing, day: str) -> list[tuple[str, str]]:
    """The day's files whose number of rows differs from their footers."""
    of_day = replace(listing, files=tuple(file for file in listing.files if file.day == day))
    counted = {
        _name(row["file"]): row["count"]
        for row in read_files(spark, of_day, USAGE, name_files=True).groupBy("file").count().collect()
    }
    reported = ((file, counted.get(_name(file.path), 0)) for file in of_day.files)
    return [(file.path, f"says it has {file.rows} rows and has {rows}") for file, rows in reported if file.rows != rows]


def _name(path: str) -> str:
    """The name in a path from Spark, which is percent-encoded and has another number of slashes."""
    return unquote(path).rsplit("/", 1)[-1]


def counted_by_day(**frames: DataFrame) -> dict[str, dict[str, int]]:
    """The number that each frame has for each `date`, computed together: each query takes time of its own, and little
    of it keeps more than one core busy.
    """
    named = (frame.withColumn("frame", F.lit(name)) for name, frame in frames.items())
    numbers: dict[str, dict[str, int]] = {name: {} for name in frames}
    for day, number, name in reduce(DataFrame.union, named).collect():
        numbers[name][day] = number
    return numbers


def with_reasons(
    spark: SparkSession, listing: Listing, reason: Column, days: Mapping[str, Counts]
) -> dict[str, Counts]:
    concerned = replace(listing, files=tuple(file for file in listing.files if file.day in days))
    record_id = F.substring("record_id", 1, MOST_OF_AN_ID).alias("record_id")
    rows = read_files(spark, concerned, USAGE, name_files=True)
    rows = rows.select("date", record_id, "file", reason.alias("reason"))
    bad = hold(rows.where("reason is not null"))
    reasons: dict[str, dict[str, int]] = {day: {} for day in days}
    for row in bad.groupBy("date", "reason").count().collect():
        reasons[row["date"]][row["reason"]] = row["count"]
    examples = [row.asDict() for row in bad.limit(EXAMPLES_A_DAY).collect()]
    release(bad)
    return {
        day: replace(
            counts,
            reasons=reasons[day],
            quarantined=sum(reasons[day].values()),
            examples=[row for row in examples if row["date"] == day],
        )
        for day, counts in days.items()
    }


def count_files(listing: Listing) -> Counts:
    """The counts of the files only."""
    return Counts(
        files=len(listing.files) + len(listing.rejected),
        files_rejected=len(listing.rejected),
        rejected=[(file.path, file.reason) for file in listing.rejected],
    )


def read_hours(spark: SparkSession, table: str, days: list[str]) -> DataFrame:
    """The stored hours of these days under `table`."""
    return _read(spark, table, days, ("hour timestamp", *(f"{name} long" for name in transforms.OF_AN_HOUR)))


def read_brief(spark: SparkSession, place: str, days: list[str]) -> DataFrame:
    """The stored brief sums of these days at `place`."""
    longs = (f"{name} long" for name in (*transforms.SUMS, *RULES))
    return _read(spark, place, days, ("hour timestamp", *longs))


def _read(spark: SparkSession, place: str, days: list[str], columns: Sequence[str]) -> DataFrame:
    schema = ", ".join([*(f"{name} string" for name in transforms.KEY), *columns, "date string"])
    if not days:
        return nothing(spark, schema)
    paths = [f"{place}/date={day}" for day in sorted(days)]
    return spark.read.schema(schema).option("basePath", place).parquet(*paths)


def chosen(rows: DataFrame, wanted: Wanted) -> DataFrame:
    return transforms.with_hour(rows).where(F.col("date").isin(*wanted.days) & wanted.condition)
