"""The hourly table: a month's usage summed by hour, every fact counted once, every row accounted for.

A full run sums everything and tells copies of a record apart wherever in the month they are. An incremental run keeps
the table under USAGE_DIR/hourly/ and sums only the days whose files have changed; it finds copies within a day, where
they are, because a record's minute is part of the fact it reports.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline import transforms
from pipeline.checks import FUTURE, usage_reason
from pipeline.counts import Counts, require_sum
from pipeline.counts import total as total_counts
from pipeline.months import Month
from pipeline.progress import Progress
from pipeline.schemas import USAGE, ddl
from pipeline.sources import Listing, list_month, read_files
from pipeline.store import read_text, write_text

EXAMPLES_A_DAY = 20
CLOCK_SKEW = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class HourlyTable:
    """The hours, what became of the rows, and how to get the rows of some days once more, minute by minute."""

    hours: DataFrame
    counts: Counts
    minutes_of: Callable[[Iterable[str]], DataFrame]


def full(spark: SparkSession, root: str, month: Month, now: datetime, progress: Progress) -> HourlyTable:
    """The month's table, from all of its files."""
    listing = list_month(spark, root, month, USAGE)
    if not listing.rows:
        nothing = spark.createDataFrame([], ddl(USAGE))
        return HourlyTable(_read_hours(spark, "", []), _files(listing), lambda days: nothing)
    hours, clean, by_day = _sum(spark, listing, month, now, progress)
    counts = total_counts([_files(listing), *by_day.values()])
    return HourlyTable(hours, counts, lambda days: clean.where(F.col("date").isin(*days)))


def incremental(
    spark: SparkSession, root: str, table: str, month: Month, now: datetime, progress: Progress
) -> HourlyTable:
    """The month's table, kept under `table`; only days whose files differ from the last run's are summed again."""
    manifest = f"{table}/_{month}.json"
    known = _known_days(spark, manifest)
    listing = list_month(spark, root, month, USAGE, {day: entry["fingerprint"] for day, entry in known.items()})
    kept = {day: entry for day, entry in known.items() if listing.fingerprints.get(day) == entry["fingerprint"]}
    changed = {day: fingerprint for day, fingerprint in listing.fingerprints.items() if day not in kept}
    if changed:
        write_text(spark, manifest, json.dumps(kept))  # first: a run that breaks off here sums these days again
        kept |= _renew(spark, listing, table, changed, month, now, progress)
        write_text(spark, manifest, json.dumps(kept))
    days = {day: _counts_of(entry) for day, entry in kept.items()}
    filled = [day for day, counts in days.items() if counts.accepted]
    hours = _read_hours(spark, table, filled)
    outside = _files(replace(listing, files=(), rejected=tuple(file for file in listing.rejected if not file.day)))
    counts = total_counts([outside, *days.values()])
    return HourlyTable(hours, counts, lambda wanted: _minutes_again(spark, root, month, now, wanted))


def _sum(
    spark: SparkSession, listing: Listing, month: Month, now: datetime, progress: Progress
) -> tuple[DataFrame, DataFrame, dict[str, Counts]]:
    """The files' hours, their rows without copies, and the counts of each day."""
    progress("finding repeated records", 0.05, listing.rows)
    valid = _valid(spark, listing, month, now)
    copies = transforms.find_copies(valid)
    progress("summing by hour", 0.4, listing.rows)
    clean = transforms.without_copies(valid, copies)
    hours = transforms.hourly(clean).persist()
    return hours, clean, _by_day(spark, listing, month, now, valid, hours, copies)


def _valid(spark: SparkSession, listing: Listing, month: Month, now: datetime) -> DataFrame:
    rows = read_files(spark, listing, USAGE)
    return transforms.hashed(rows.where(_reason(month, now).isNull()).drop("file"))


def _reason(month: Month, now: datetime) -> Column:
    """Of a month that is still to come nothing is known, so no minute in it is refused as lying in the future."""
    return usage_reason(now + CLOCK_SKEW if month.start <= now else None)


def _by_day(
    spark: SparkSession,
    listing: Listing,
    month: Month,
    now: datetime,
    valid: DataFrame,
    hours: DataFrame,
    copies: transforms.Copies,
) -> dict[str, Counts]:
    """What became of each day's rows. The footers say how many there are; where some are missing it is asked why."""
    read = {day: sum(file.rows for file in listing.files if file.day == day) for day in {f.day for f in listing.files}}
    accepted = _counted(hours.groupBy("date").agg(F.sum("rows").alias("n")))
    repeated: dict[str, int] = {}
    if copies.count:
        concerned = _counted(valid.join(copies.hashes, "h", "left_semi").groupBy("date").agg(F.count("*").alias("n")))
        winners = _counted(copies.winners.groupBy("date").agg(F.count("*").alias("n")))
        repeated = {day: n - winners.get(day, 0) for day, n in concerned.items()}
    days = {day: Counts(read=n, accepted=accepted.get(day, 0), copies=repeated.get(day, 0)) for day, n in read.items()}
    suspect = [day for day, counts in days.items() if not counts.adds_up]
    if suspect:
        days |= _with_reasons(spark, listing, _reason(month, now), {day: days[day] for day in suspect})
    for day, counts in days.items():
        require_sum(day, counts)
    return days


def _counted(frame: DataFrame) -> dict[str, int]:
    return {row["date"]: row["n"] for row in frame.collect()}


def _with_reasons(
    spark: SparkSession, listing: Listing, reason: Column, days: Mapping[str, Counts]
) -> dict[str, Counts]:
    concerned = replace(listing, files=tuple(file for file in listing.files if file.day in days))
    rows = read_files(spark, concerned, USAGE).select("date", "record_id", "file", reason.alias("reason"))
    bad = rows.where("reason is not null").persist()
    reasons: dict[str, dict[str, int]] = {day: {} for day in days}
    for row in bad.groupBy("date", "reason").count().collect():
        reasons[row["date"]][row["reason"]] = row["count"]
    examples = [row.asDict() for row in bad.limit(EXAMPLES_A_DAY).collect()]
    bad.unpersist()
    return {
        day: replace(
            counts,
            reasons=reasons[day],
            quarantined=sum(reasons[day].values()),
            examples=[row for row in examples if row["date"] == day],
        )
        for day, counts in days.items()
    }


def _files(listing: Listing) -> Counts:
    """The files alone."""
    return Counts(
        files=len(listing.files) + len(listing.rejected),
        files_rejected=len(listing.rejected),
        rejected=[(file.path, file.reason) for file in listing.rejected],
    )


def _known_days(spark: SparkSession, manifest: str) -> dict[str, dict[str, object]]:
    text = read_text(spark, manifest)
    try:
        known = json.loads(text or "{}")
    except json.JSONDecodeError:  # half written by a run that was killed: everything is summed again
        return {}
    return known if isinstance(known, dict) else {}


def _counts_of(entry: Mapping[str, object]) -> Counts:
    fields = dict(entry)
    fields.pop("fingerprint")
    return Counts(**fields)  # type: ignore[arg-type]


def _renew(
    spark: SparkSession,
    listing: Listing,
    table: str,
    changed: Mapping[str, str],
    month: Month,
    now: datetime,
    progress: Progress,
) -> dict[str, dict[str, object]]:
    """Sums the changed days into the table and returns their entries; what may look different tomorrow gets none."""
    hours, _, by_day = _sum(spark, listing, month, now, progress)
    hours.write.mode("overwrite").partitionBy("date").parquet(table)
    hours.unpersist()
    entries: dict[str, dict[str, object]] = {}
    for day, fingerprint in changed.items():
        of_day = replace(
            listing,
            files=tuple(file for file in listing.files if file.day == day),
            rejected=tuple(file for file in listing.rejected if file.day == day),
        )
        counts = total_counts([_files(of_day), by_day.get(day, Counts())])
        lasting = "" if FUTURE in counts.reasons else fingerprint
        entries[day] = {"fingerprint": lasting, **asdict(counts)}
    return entries


def _read_hours(spark: SparkSession, table: str, days: list[str]) -> DataFrame:
    texts = ", ".join(f"{name} string" for name in transforms.KEY)
    longs = ", ".join(f"{name} long" for name in transforms.SUMS)
    schema = f"{texts}, hour timestamp, {longs}, date string"
    if not days:
        return spark.createDataFrame([], schema)
    paths = [f"{table}/date={day}" for day in sorted(days)]
    return spark.read.schema(schema).option("basePath", table).parquet(*paths)


def _minutes_again(spark: SparkSession, root: str, month: Month, now: datetime, days: Iterable[str]) -> DataFrame:
    """The rows of some days without copies, from their files."""
    listing = list_month(spark, root, month, USAGE, only=set(days))
    valid = _valid(spark, listing, month, now)
    return transforms.without_copies(valid, transforms.find_copies(valid))
