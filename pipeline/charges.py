"""A month's charges: the day sums brought up to date, sorted into tiers, priced."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from pipeline import backlog, outages
from pipeline.errors import FilesChangedError, InputError, UnreadableFilesError
from pipeline.invoice import Terms
from pipeline.months import Month
from pipeline.outages import Episode, availability
from pipeline.placing import Ladder, Tables, place
from pipeline.prices import PriceList
from pipeline.pricing import collector_paused, price
from pipeline.progress import LOOKING, Progress, silent
from pipeline.results import Outcome
from pipeline.schemas import ALLOCATIONS
from pipeline.tariffs import BASIC, NOTHING_KNOWN, PREMIUM, Tariffs
from pipeline.usage.counts import refuse_too_much, total
from pipeline.usage.files import UNREADABLE, place_of
from pipeline.usage.folder import UsageFolder
from pipeline.usage.peaks import read_peaks
from pipeline.usage.refreshing import Refreshing
from pipeline.usage.table import DayTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAMAGED_FILE = re.compile(r"Encountered error while reading file (\S+?)\.?\s")
GONE = ("PATH_NOT_FOUND", "FAILED_READ_FILE.FILE_NOT_EXIST")
MOST_ATTEMPTS = 20
FOLDERS = ("usage", "connections")
Session = Callable[[int], "SparkSession"]
"""Gives the session, started for so many rows if it was not yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The request of a computation. `usage`: the folder that holds `usage/` and `connections/`; `table`: its day sums.

    `outages`: a file of outages, if requested; `inventory`: the existing entities, as (pair, entity). `depths`: a file
    of samples of the backlogs, if their rollups are requested. `left_out`: files that an earlier attempt could not
    read, by name, and why. `may_be_empty`: whether a folder that has neither of both is one in which nothing was
    written yet. `until`: the first minute that is left to the next run, as not all of its records are written yet.
    """

    month: Month
    usage: UsageFolder
    table: DayTable
    prices: PriceList
    allocation: str = ALLOCATIONS[0]
    hours_in_month: int | None = None
    max_quarantined: Fraction = Fraction(5, 100)
    outages: Path | None = None
    inventory: tuple[tuple[str, str], ...] = ()
    tariffs: Tariffs = NOTHING_KNOWN
    depths: Path | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    may_be_empty: bool = True
    until: datetime | None = None

    def terms(self, rule: str) -> Terms:
        return Terms(
            month=self.month,
            prices=self.prices,
            rule=rule,
            allocation=self.allocation,
            hours_in_month=self.hours_in_month,
            tariffs=self.tariffs,
        )


def compute_readable(session: Session, request: Request, now: datetime, progress: Progress = silent) -> Outcome:
    """What `compute` returns, without the files whose content turns out to be damaged: they are rejected by name.

    When files are merged while it runs, it begins again with those that are there then; days that are summed stay so.
    """
    for _ in range(MOST_ATTEMPTS):
        try:
            return compute(session, request, now, progress)
        except Exception as error:
            unreadable = _unreadable_files(error)
            if not _is_changed(error) and (not unreadable or unreadable.keys() <= request.left_out.keys()):
                raise
            request = replace(request, left_out={**request.left_out, **unreadable})
    return compute(session, request, now, progress)


def _is_changed(error: Exception) -> bool:
    """Whether a file was removed or replaced that had been there."""
    condition = getattr(error, "getCondition", lambda: None)()  # of an error of Spark
    return isinstance(error, FilesChangedError) or condition in GONE


def _unreadable_files(error: Exception) -> Mapping[str, str]:
    """The names of the files that the error is about, and what is wrong with each."""
    if isinstance(error, UnreadableFilesError):
        return error.files
    damaged = damaged_file(error)
    return {place_of(damaged): UNREADABLE} if damaged else {}


def damaged_file(error: Exception) -> str | None:
    """The file that Spark could not read, if that is what the error is about."""
    found = DAMAGED_FILE.search(str(error))
    return unquote(found[1]) if found else None


def compute(session: Session, request: Request, now: datetime, progress: Progress = silent) -> Outcome:
    """The month's invoices under both counting rules. Raises PipelineError if the input is unreliable."""
    progress(LOOKING, 0.0, 0)
    _require_folders(request)
    refreshing = Refreshing(
        request.usage, request.table, request.month, now, session, progress, request.left_out, request.until
    )
    now = request.until or now
    days, others = refreshing.days()
    peaks, of_connections = read_peaks(request.usage, request.month)
    of_usage = total([others, *(day.header.counts for day in days)])
    for of_source in (of_usage, of_connections):
        refuse_too_much(of_source, request.max_quarantined)
    counts = total([of_usage, of_connections])
    progress("pricing", 0.8, counts.read)

    def tables() -> Iterator[tuple[str, pa.Table]]:
        return ((day.day, day.sums()) for day in days)

    starts, beside = request.prices.operations.starts, _beside(request)
    ladder = Ladder.climbed(tables, starts, beside)
    known = outages.of_month(outages.read_outages(request.outages), request.month, now)
    at_ends = outages.hours_of(known)
    minutes = refreshing.minutes(days, ladder.split | at_ends)
    episodes = _episodes(known, request, tables, minutes, at_ends, now)
    with collector_paused():
        placed = place(tables, minutes, ladder, beside)
        priced = tuple(price(request.terms, placed, peaks))
    progress("done", 1.0, counts.read)
    return Outcome(
        counts=counts,
        priced=priced,
        episodes=tuple(episodes),
        availability=tuple(availability(episodes, request.inventory, request.month, now) if request.outages else ()),
        rollups=tuple(backlog.rollups(backlog.read_samples(request.depths))),
        late_days=tuple(sorted(refreshing.late)),
    )


def _require_folders(request: Request) -> None:
    """Raises InputError for a folder that is not the one of the records: a month without any would replace theirs."""
    if request.may_be_empty or {child.name for child in request.usage.children()} & set(FOLDERS):
        return
    place = request.usage.url.removeprefix("file://")
    raise InputError(f"{place} has no usage/ and no connections/: give the folder that contains them.")


def _beside(request: Request) -> dict[str, int]:
    """The namespaces whose units are in no tier, with their places behind the tiers: those of Basic and of Premium."""
    first = len(request.prices.operations.starts)
    tiers = enumerate((BASIC, PREMIUM), first)
    return {name: number for number, tier in tiers for name in request.tariffs.of(tier)}


def _episodes(
    known: list[outages.Outage],
    request: Request,
    tables: Tables,
    minutes: pa.Table,
    at_ends: set[int],
    now: datetime,
) -> list[Episode]:
    """The month's outages with their operations: whole hours by hour, those in which one begins or ends by minute."""
    usage = outages.Usage(known)
    hours = pa.array(sorted(at_ends), pa.int64())
    for _, table in tables() if known else ():
        usage.add(table.filter(pc.invert(pc.is_in(table["hour"], hours))), "hour", 60)
    usage.add(minutes.filter(pc.is_in(pc.divide(minutes["minute"], 60), hours)), "minute", 1)
    return usage.episodes(request.month, now)


def utc_now() -> datetime:
    return datetime.now(UTC)
