"""A month's charges from its usage files: read, check, deduplicate, sort into tiers, price."""

from __future__ import annotations

import gc
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from operator import itemgetter
from typing import Any
from urllib.parse import unquote

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from pipeline import backlog, outages, places, transforms
from pipeline.checks import connection_reason
from pipeline.counts import Counts, refuse_too_much, total
from pipeline.errors import FileGoneError, FilesLieError, InputError
from pipeline.folders import FILE, children, reach
from pipeline.held import collected, hold
from pipeline.hourly import HourlyTable, full
from pipeline.invoice import Connections, Line, PeakDay, Terms, connections_of, invoice, unit_prices
from pipeline.kept import incremental
from pipeline.minutes import of_hours, of_kinds
from pipeline.months import Month
from pipeline.outages import Episode, availability
from pipeline.plans import for_few_rows, for_sums
from pipeline.price_tiers import UnitPrices
from pipeline.prices import PriceList
from pipeline.progress import Progress, silent
from pipeline.results import Day, Outcome, Priced
from pipeline.schemas import ALLOCATIONS, CONNECTIONS, OF_A_PROCESS, RULES
from pipeline.sources import PATTERN, list_month, place_of, read_files
from pipeline.store import delete
from pipeline.tariffs import BASIC, NOTHING_KNOWN, PREMIUM, Tariffs

UNREADABLE = re.compile(r"Encountered error while reading file (\S+?)\.?\s")
DAMAGED = "is damaged: its content cannot be read"
MOST_ATTEMPTS = 20
OF_RECORDS = re.compile(r"/(usage|connections)/date=")
COLUMNS = (*transforms.KEY, "date", *places.COUNTED)
"""The first columns of `places.totals`; then come the places of the units, rule by rule."""
Total = tuple[Any, ...]
FIRST_PLACE = len(COLUMNS)
SCOPE, DATE, KIND, OPERATIONS = map(COLUMNS.index, ("scope", "date", "kind", "operations"))
BY_KEY = itemgetter(*map(COLUMNS.index, ("namespace", "entity", "kind", "pair")))
BY_DAY = itemgetter(DATE, KIND)
FOLDERS = {"usage", "connections"}
OF_A_FOLDER = set(PATTERN) - {":"}
"""What the path of the records may not have; the address of a store has a colon."""
GONE = ("PATH_NOT_FOUND", "FAILED_READ_FILE.FILE_NOT_EXIST")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The request of a computation. `usage`: the folder that holds `usage/` and `connections/`.

    `outages`: a file of outages, if requested; `inventory`: the existing entities, as (pair, entity). `depths`: a file
    of samples of the backlogs, if their rollups are requested. `left_out`: files that an earlier attempt
    could not read, and why. `store`: settings of Hadoop for an object store, its keys among them. `may_be_empty`:
    whether a folder that has neither of both is one in which nothing was written yet.
    """

    month: Month
    usage: str
    prices: PriceList
    allocation: str = ALLOCATIONS[0]
    hours_in_month: int | None = None
    max_quarantined: Fraction = Fraction(5, 100)
    incremental: bool = False
    outages: str = ""
    inventory: tuple[tuple[str, str], ...] = ()
    tariffs: Tariffs = NOTHING_KNOWN
    depths: str = ""
    left_out: Mapping[str, str] = field(default_factory=dict)
    store: Mapping[str, str] = field(default_factory=dict, repr=False)
    may_be_empty: bool = True

    def terms(self, rule: str) -> Terms:
        return Terms(
            month=self.month,
            prices=self.prices,
            rule=rule,
            allocation=self.allocation,
            hours_in_month=self.hours_in_month,
            tariffs=self.tariffs,
        )


def compute_readable(spark: SparkSession, request: Request, now: datetime, progress: Progress = silent) -> Outcome:
    """What `compute` returns, without the files whose content turns out to be damaged: they are rejected by name.

    When files are merged while it runs, it begins again with those that are there then. Sums that were kept and are
    damaged are made again.
    """
    for _ in range(MOST_ATTEMPTS):
        try:
            return compute(spark, request, now, progress)
        except Exception as error:
            if _is_gone(error):
                spark.catalog.clearCache()
                continue
            if (damaged := _kept_file(error, request)) is not None:
                delete(spark, damaged)  # its day is summed again, as without it
                spark.catalog.clearCache()
                continue
            unreadable = _unreadable_files(error)
            if not unreadable or not unreadable.keys().isdisjoint(request.left_out):
                raise
            spark.catalog.clearCache()
            request = replace(request, left_out={**request.left_out, **unreadable})
    return compute(spark, request, now, progress)


def _is_gone(error: Exception) -> bool:
    """Whether a file of records was removed that had been there."""
    if isinstance(error, PySparkException) and error.getCondition() in GONE:
        return OF_RECORDS.search(str(error)) is not None
    return isinstance(error, FileGoneError)


def _kept_file(error: Exception, request: Request) -> str | None:
    """The file of kept sums that is damaged, if that is what the error is about."""
    damaged = damaged_file(error)
    return damaged if damaged and f"{request.usage.removeprefix(FILE)}/hourly/" in damaged else None


def _unreadable_files(error: Exception) -> dict[str, str]:
    """The places of the files that the error is about, and what is wrong with each."""
    if isinstance(error, FilesLieError):
        return {place_of(path): reason for path, reason in error.files}
    damaged = damaged_file(error)
    return {place_of(damaged): DAMAGED} if damaged else {}


def damaged_file(error: Exception) -> str | None:
    """The file that Spark could not read, if that is what the error is about."""
    java = getattr(error, "java_exception", None)
    found = UNREADABLE.search(str(java.getMessage() if java is not None else error))
    return unquote(found[1]) if found else None


def compute(spark: SparkSession, request: Request, now: datetime, progress: Progress = silent) -> Outcome:
    """The month's invoices under both counting rules. Raises PipelineError if the input is unreliable."""
    progress("looking at the files", 0.0, 0)
    reach(spark, request.usage, request.store)
    _require_folders(spark, request)
    peaks, connection_counts = _connections(spark, request)
    table = _table(spark, request, now, progress)
    for of_source in (table.counts, connection_counts):
        refuse_too_much(of_source, request.max_quarantined)
    counts = total([table.counts, connection_counts])
    progress("pricing", 0.8, counts.read)
    with collector_paused(), for_few_rows(spark) if table.are_few else for_sums(spark):
        are_many = table.counts.accepted > transforms.FEW and not table.are_few
        rows = collected(_placed(table, request), are_many=are_many) if table.counts.accepted else []
    episodes = _outages(spark, request, table, now, progress) if request.outages else []
    known = availability(episodes, request.inventory, request.month, now) if request.outages else []
    depths = backlog.rollups(backlog.read_samples(spark, request.depths)) if request.depths else []
    with collector_paused():
        priced = tuple(_price(request, rows, connections_of(peaks)))
    spark.catalog.clearCache()  # all that is wanted is here; what stays cached slows every later plan down
    progress("done", 1.0, counts.read)
    return Outcome(
        counts=counts,
        priced=priced,
        episodes=tuple(episodes),
        availability=tuple(known),
        rollups=tuple(depths),
        peaks=tuple(peaks),
    )


def _require_folders(spark: SparkSession, request: Request) -> None:
    """Raises InputError for a folder that is not the one of the records: a month without any would replace theirs."""
    if odd := sorted(OF_A_FOLDER & set(request.usage)):
        raise InputError(f"{request.usage} has {' '.join(odd)}, which Spark takes for a pattern: rename the folder.")
    if request.may_be_empty or {child.name for child in children(spark, request.usage)} & FOLDERS:
        return
    raise InputError(f"{request.usage} has no usage/ and no connections/: give the folder that contains them.")


def _outages(
    spark: SparkSession, request: Request, table: HourlyTable, now: datetime, progress: Progress
) -> list[Episode]:
    """The month's outages with their operations."""
    progress("looking at outages", 0.9, table.counts.read)
    episodes = hold(outages.episodes_of(outages.read_outages(spark, request.outages), request.month, now))
    days = outages.days_of(episodes, table.coarsest, request.month)
    if not days:
        return []
    minutes = hold(table.minutes(of_kinds(days, {*outages.EXTRA, *outages.WAY_HOME})))
    used = outages.units_of(episodes, minutes).unionByName(outages.polls_of(episodes, minutes))
    return outages.collect(episodes, used, request.month)


def _table(spark: SparkSession, request: Request, now: datetime, progress: Progress) -> HourlyTable:
    root = f"{request.usage}/usage"
    if request.incremental:
        return incremental(spark, root, f"{request.usage}/hourly", request.month, now, progress, request.left_out)
    by_namespace = bool(_beside_the_ladder(request.tariffs))
    return full(spark, root, request.month, now, progress, request.left_out, by_namespace=by_namespace)


def _beside_the_ladder(tariffs: Tariffs) -> list[str]:
    """The namespaces whose units are in no tier: those of Basic and Premium."""
    return [*tariffs.of(BASIC), *tariffs.of(PREMIUM)]


def _placed(table: HourlyTable, request: Request) -> DataFrame:
    """The month's sums with their units in the tiers: see `places.totals`. Only Standard units are in tiers."""
    starts, tariffs = request.prices.operations.starts, request.tariffs
    others = _beside_the_ladder(tariffs)
    if not others:
        return places.totals(_on_the_ladder(table, starts), len(starts))
    elsewhere = F.col("namespace").isin(*others)
    on_it = places.with_places_beside(_on_the_ladder(table.where(~elsewhere), starts), len(starts))
    beside = places.beside_the_ladder(table.coarsest.where(elsewhere), len(starts), tariffs.of(BASIC))
    return places.totals(on_it.unionByName(beside), len(starts) + 2)


def _on_the_ladder(table: HourlyTable, starts: tuple[int, ...]) -> DataFrame:
    ladder = hold(places.hours_on_the_ladder(table.paces, starts))
    steps = places.days_of_steps(ladder).collect()
    if table.days is None:
        placed = places.hours_in_one_tier(table.hours, ladder, starts)
    else:
        placed = places.days_in_one_tier(table.days, table.hours, ladder, steps, starts)
    if split := {(hour, step["scope"]) for step in steps for hour in step["hours"]}:
        minutes = table.minutes(of_hours({hour for hour, _ in split}, split))
        finer = hold(places.minutes_on_the_ladder(minutes, ladder, starts))
        placed = placed.unionByName(places.minutes_in_one_tier(minutes, finer, starts))
        placed = placed.unionByName(places.across_tiers(minutes, finer, starts))
    return placed


def _connections(spark: SparkSession, request: Request) -> tuple[list[PeakDay], Counts]:
    """The peaks by namespace and day, and the results of reading their files and rows."""
    root, left_out = f"{request.usage}/connections", request.left_out
    listing = list_month(spark, root, request.month, CONNECTIONS, optional=OF_A_PROCESS, left_out=left_out)
    files = Counts(
        files=len(listing.files) + len(listing.rejected),
        files_rejected=len(listing.rejected),
        rejected=[(file.path, file.reason) for file in listing.rejected],
    )
    if not listing.rows:
        return [], files
    rows = read_files(spark, listing, CONNECTIONS | OF_A_PROCESS).withColumn("reason", connection_reason())
    days = [_peak_day(row) for row in transforms.connection_days(rows.where("reason is null")).collect()]
    bad = rows.where("reason is not null").groupBy("reason").count().collect()
    reasons = {f"connections: {row['reason']}": row["count"] for row in bad}
    lost = sum(reasons.values())
    by_place = sorted(days, key=lambda day: (day.scope, day.namespace, day.date))
    known = {"read": listing.rows, "accepted": listing.rows - lost, "quarantined": lost}
    return by_place, replace(files, reasons=reasons, **known)


def _peak_day(row: Row) -> PeakDay:
    known = {hour["hour"]: hour["peak"] for hour in row["hours"]}
    peaks = tuple(known.get(hour) for hour in range(24))
    return PeakDay(scope=row["scope"], namespace=row["namespace"], date=row["date"], peaks=peaks)


def _price(request: Request, rows: Iterable[Total], connections: Mapping[str, list[Connections]]) -> Iterator[Priced]:
    tiers = len(request.terms(RULES[0]).rates)
    usage, days = defaultdict[str, list[Total]](list), defaultdict[str, list[Total]](list)
    for row in rows:
        (usage if row[DATE] is None else days)[row[SCOPE]].append(row)
    for of_scope in usage.values():
        of_scope.sort(key=BY_KEY)
    for of_scope in days.values():
        of_scope.sort(key=BY_DAY)
    for number, rule in enumerate(RULES):
        terms, first = request.terms(rule), FIRST_PLACE + number * tiers
        of_rule = slice(first, first + tiers)
        for scope in sorted({*usage, *connections}):
            used = [_line(row, row[of_rule]) for row in usage[scope]]
            made = invoice(terms, scope, used, connections.get(scope, ()))
            prices = unit_prices(terms, made.tiers)
            yield Priced(invoice=made, days=tuple(_day(prices, row, row[of_rule]) for row in days[scope]))


@contextmanager
def collector_paused() -> Iterator[None]:
    """No search for reference cycles meanwhile: there are none among the rows of a report, and hundreds of thousands of
    them are looked through again and again.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _line(row: Total, tiers: tuple[int, ...]) -> Line:
    _, pair, namespace, entity, kind, _, operations, messages, size, _ = row[:FIRST_PLACE]
    return Line(
        namespace=namespace,
        entity=entity,
        kind=kind,
        pair=pair,
        operations=operations,
        messages=messages,
        bytes=size,
        units=sum(tiers),
        tiers=tiers,
    )


def _day(prices: UnitPrices, row: Total, tiers: tuple[int, ...]) -> Day:
    """What one kind cost on one day, shared as the allocation says."""
    exact = prices.price_of(tiers)
    return Day(date=row[DATE], kind=row[KIND], operations=row[OPERATIONS], units=sum(tiers), exact=exact)


def utc_now() -> datetime:
    return datetime.now(UTC)
