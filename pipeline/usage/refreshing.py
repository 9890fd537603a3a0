"""Brings the table of day sums up to date: a day is summed again when one of its files has changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from pipeline.errors import FilesChangedError
from pipeline.months import Month
from pipeline.progress import Progress
from pipeline.schemas import FUTURE, KEY, SUMS, USAGE
from pipeline.usage.counts import Counts
from pipeline.usage.files import SourceFile, check, place_of
from pipeline.usage.folder import Child, UsageFolder, day_number, day_of
from pipeline.usage.listing import Listing
from pipeline.usage.sums import NO_MINUTES, NO_SUMS, add_up, by_day, counts_of, elsewhere, require_sum, storable
from pipeline.usage.table import Day, DayTable, Header

if TYPE_CHECKING:  # loaded when something has changed: it takes longer than to see that nothing has
    from pyspark.sql import SparkSession

    from pipeline.usage.summing import Odd, Records

CLOCK_SKEW = timedelta(hours=1)
LATE = timedelta(days=1)
ROWS_AT_ONCE = 25_000_000
Files = Mapping[str, SourceFile | str]
"""The checked files of a day by name, each as it is or why it is left out."""


@dataclass(slots=True)
class Refreshing:
    """A run's way to the sums of a month. `session`: starts Spark for so many rows, when it is needed; `left_out`:
    files that an earlier attempt could not read, by name, and why; `until`: the first minute that it does not sum, if
    there is one; `late`: the days before yesterday that it sums although they had been.
    """

    folder: UsageFolder
    table: DayTable
    month: Month
    now: datetime
    session: Callable[[int], SparkSession]
    progress: Progress
    left_out: Mapping[str, str]
    until: datetime | None = None
    summed: dict[str, Records | None] = field(default_factory=dict)
    late: set[str] = field(default_factory=set)

    def days(self) -> tuple[list[Day], Counts]:
        """The sums of the month's days, up to date, and the results of all rows and files."""
        while stale := self._stale(listing := Listing(self.folder, self.table.headers())):
            self.late |= {day for day in stale if day in listing.headers and day < f"{self.now - LATE:%Y-%m-%d}"}
            for some in _portions((day, self._checked(listing.sources(day))) for day in stale):
                self._sum(listing, some)
        days = [self.table.open(day) for day in listing.of_month(str(self.month))]
        rejected = len(listing.others)
        return days, Counts(files=rejected, files_rejected=rejected, rejected=listing.others)

    def _stale(self, listing: Listing) -> list[str]:
        """Of days that are not final, those are left that this run has summed; files that come meanwhile are the next
        run's, as new ones come all the time.
        """
        return [day for day in listing.stale(str(self.month)) if day not in self.summed or listing.is_outdated(day)]

    @property
    def _not_after(self) -> datetime | None:
        """In a future month no minute is refused as being in the future."""
        return self.now + CLOCK_SKEW if self.month.start <= self.now else None

    def _checked(self, sources: Mapping[str, Child]) -> Files:
        return {name: self.left_out.get(name) or check(self.folder, child, USAGE) for name, child in sources.items()}

    def _records(self, days: Mapping[str, Files]) -> Records | None:
        """The records of the days; nothing where no file has any."""
        from pipeline.usage.summing import Records

        every = {name: file for files in days.values() for name, file in files.items() if isinstance(file, SourceFile)}
        files = [file for file in every.values() if file.rows]
        if not files:
            return None
        rows = sum(file.rows for file in files)
        spark = self.session(rows)
        for name, value in self.folder.settings.items():  # not of the session's JVM, whose arguments others can read
            spark.conf.set(name, value)
        self.progress("summing by hour", 0.1, rows)
        numbers = set(map(day_number, days))
        return Records(spark, f"{self.folder.address}/usage", files, numbers, self._not_after, self.until)

    def _sum(self, listing: Listing, days: Mapping[str, Files]) -> None:
        """Sum the days into the table."""
        sums: pa.Table = NO_SUMS
        odd: list[Odd] = []
        examples: list[dict[str, str]] = []
        if (records := self._records(days)) is not None:
            sums = records.sums("hour")
            odd, examples = require_sum(records, sums)
        found, root = by_day(sums), f"{self.folder.root}/usage"
        unfinished = f"{self.until:%Y-%m-%d}" if sums["hour"].null_count else "never"
        for day, files in days.items():
            of_day = found.get(day, NO_SUMS)
            counts = counts_of(day, root, files, of_day, odd)
            header = Header(
                sources=listing.marks(day),
                elsewhere=elsewhere(day, odd),
                counts=replace(counts, examples=[row for row in examples if row["date"] == day]),
                is_final=FUTURE not in counts.reasons and self.month.start <= self.now and day < unfinished,
            )
            self.table.write(day, storable(of_day).select([*KEY, "hour", *SUMS]), header)
        self.summed |= dict.fromkeys(days, records)

    def minutes(self, days: Collection[Day], hours: Collection[int]) -> pa.Table:
        """The sums by minute of these hours; what is not kept is summed, and kept. Raises FilesChangedError."""
        found: list[pa.Table] = [NO_MINUTES]
        missing: dict[str, tuple[Day, set[int]]] = {}
        for day in days:
            of_day = {hour for hour in hours if day_of(hour // 24) == day.day}
            if not of_day:
                continue
            kept = self.table.minutes(day, of_day)
            if kept is not None and add_up(kept, day, of_day):
                found.append(kept)
            else:
                missing[day.day] = day, of_day
        if missing:
            made = by_day(self._minutes_of(missing), "minute")
            for name, (day, of_day) in missing.items():
                sums = storable(made.get(name, NO_MINUTES)).select(NO_MINUTES.column_names)
                if not add_up(sums, day, of_day):  # files were replaced in between
                    raise FilesChangedError(f"A file of {day.day}")
                self.table.write_minutes(day, sums, of_day)
                found.append(sums)
        every = pa.concat_tables([table.cast(NO_MINUTES.schema) for table in found])
        return every.filter(pc.is_in(pc.divide(every["minute"], 60), pa.array(sorted(hours), pa.int64())))

    def _minutes_of(self, missing: Mapping[str, tuple[Day, set[int]]]) -> pa.Table:
        """The sums of these hours of the days, from the records that this run has found already, or from the files."""
        unknown = [day for name, (day, _) in missing.items() if name not in self.summed]
        for some in _portions((day.day, self._as_before(day)) for day in unknown):
            self.summed |= dict.fromkeys(some, self._records(some))
        wanted: dict[Records | None, set[int]] = defaultdict(set)
        for name, (_, hours) in missing.items():
            wanted[self.summed[name]] |= hours
        parts = [NO_MINUTES, *(records.sums("minute", hours) for records, hours in wanted.items() if records)]
        return pa.concat_tables([part.select(NO_MINUTES.column_names).cast(NO_MINUTES.schema) for part in parts])

    def _as_before(self, day: Day) -> Files:
        """The files that the day's sums were made of."""
        listing = Listing(self.folder, self.table.headers())
        if listing.marks(day.day) != day.header.sources:
            raise FilesChangedError(f"The folder of {day.day}")
        without = {place_of(path): reason for path, reason in day.header.counts.rejected}
        return {name: without.get(name) or file for name, file in self._checked(listing.sources(day.day)).items()}


def _portions(days: Iterable[tuple[str, Files]]) -> Iterator[dict[str, Files]]:
    """By day its files: as many days as have ROWS_AT_ONCE."""
    portion: dict[str, Files] = {}
    rows = 0
    for day, files in days:
        more = sum(file.rows for file in files.values() if isinstance(file, SourceFile))
        if portion and rows + more > ROWS_AT_ONCE:
            yield portion
            portion, rows = {}, 0
        portion[day] = files
        rows += more
    yield portion
