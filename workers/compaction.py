"""Merges many small usage files of a day into few. Nothing is lost or counted twice, even if the process is killed.

Unfinished files of killed writers are deleted after an hour: readers skip them, and their rows are in the stream or in
the files that were being merged.

A file is deleted only once all its rows are on disk in another file. Until then some rows exist twice, which the
pipeline handles: for each record_id it counts the highest seq. Only rows that are equal in all columns are dropped
here. The pipeline decides which version of a record counts, because it knows whether the newest one can be billed.

What is written is cut at a minute where it takes several files, so that versions of a record are in one of them: then
the pipeline need not look for them in files whose footers say that each record is there once (`workers.record_ids`).
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import zip_longest
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import structlog

from workers.record_ids import with_note
from workers.usage import FOLDERS

log = structlog.get_logger(__name__)
SMALL, COMPACTED, UNFINISHED = "part-", "compact-", "_tmp-"
IDENTITY, MINUTE, ORDER = "record_id", "minute", ("scope", "namespace", "entity", "kind", "minute", "hour")
ABANDONED = timedelta(hours=1)  # far longer than writing any file takes
A_NIGHT = timedelta(hours=26)
ROWS_AT_ONCE = 1_000_000
MANY = 8  # compacted files of a day, to which late records add one every night


def compact(usage_dir: str, now: datetime) -> int:
    """Compact every past day. Returns the number of deleted files. Raises OSError; nothing is lost then."""
    store, root = _open(usage_dir)
    today, yesterday = (f"date={now.astimezone(UTC) - timedelta(days=ago):%Y-%m-%d}" for ago in (0, 1))
    gone = 0
    for name, schema in FOLDERS.items():
        folders = store.get_file_info(pafs.FileSelector(f"{root}/{name}", allow_not_found=True))
        days = sorted(folder.path for folder in folders if folder.base_name.startswith("date="))
        for day in days:
            _sweep(store, day, now)
        for day in days:
            if (date_of := Path(day).name) < today:
                gone += _compact_day(store, day, schema, is_new=date_of == yesterday)
    return gone


def compact_today(usage_dir: str, now: datetime) -> int:
    """Compact what was written of the running day before this hour. Returns as `compact` does."""
    store, root = _open(usage_dir)
    at = now.astimezone(UTC)
    this_hour = at.replace(minute=0, second=0, microsecond=0)
    days = [(f"{root}/{name}/date={at:%Y-%m-%d}", schema) for name, schema in FOLDERS.items()]
    return sum(_compact_day(store, day, schema, before=this_hour) for day, schema in days)


def days_with_new_files(usage_dir: str, now: datetime) -> list[date]:
    """The days before yesterday in which a file that compaction did not write appeared since the previous night."""
    store, root = _open(usage_dir)
    found = []
    for name in FOLDERS:
        for folder in store.get_file_info(pafs.FileSelector(f"{root}/{name}", allow_not_found=True)):
            day = _day_of(folder.base_name)
            if day is not None and day < now.date() - timedelta(days=1) and _has_new_file(store, folder.path, now):
                found.append(day)
    return found


def _day_of(name: str) -> date | None:
    try:
        return date.fromisoformat(name.removeprefix("date=")) if name.startswith("date=") else None
    except ValueError:
        return None


def _has_new_file(store: pafs.FileSystem, day: str, now: datetime) -> bool:
    infos = store.get_file_info(pafs.FileSelector(day))
    written = [info for info in infos if info.is_file and not info.base_name.startswith(("_", ".", COMPACTED))]
    return any(info.mtime is not None and info.mtime > now - A_NIGHT for info in written)


def _sweep(store: pafs.FileSystem, day: str, now: datetime) -> None:
    """Delete unfinished files of killed writers."""
    for info in store.get_file_info(pafs.FileSelector(day)):
        if info.is_file and info.base_name.startswith(UNFINISHED) and info.mtime < now - ABANDONED:
            store.delete_file(info.path)
            log.info("unfinished usage file removed", day=Path(day).name, file=info.base_name)


def _open(usage_dir: str) -> tuple[pafs.FileSystem, str]:
    if "://" in usage_dir:
        found: tuple[pafs.FileSystem, str] = pafs.FileSystem.from_uri(usage_dir)
        return found
    return pafs.LocalFileSystem(), str(Path(usage_dir).expanduser().absolute())


@dataclass(frozen=True, slots=True)
class _File:
    """A file to be merged: its number of rows and, where its footer says so, the first and last minute of them."""

    path: str
    rows: int
    first: datetime | None = None
    last: datetime | None = None


def _compact_day(
    store: pafs.FileSystem, day: str, schema: pa.Schema, before: datetime | None = None, *, is_new: bool = False
) -> int:
    """Merge the day's small files, or those written `before` a time. `is_new`: the day has just ended, so that what was
    merged every hour becomes one.
    """
    found = store.get_file_info(pafs.FileSelector(day, allow_not_found=True))
    files = sorted(info.path for info in found if info.is_file and (before is None or info.mtime < before))
    done = [path for path in files if Path(path).name.startswith(COMPACTED)]
    chosen = [path for path in files if Path(path).name.startswith(SMALL)]
    if len(done) >= MANY or (is_new and chosen):
        chosen = [*done, *chosen]
    known = [file for path in chosen if (file := _file(store, path, schema)) is not None]
    return _merge_portions(store, day, list(_by_rows(known)), schema)


def _by_rows(files: Iterable[_File]) -> Iterator[list[_File]]:
    """Group the files into portions that fit in memory, in the order of their minutes."""
    portion: list[_File] = []
    rows = 0
    for file in sorted(files, key=lambda file: (file.first is None, file.first, file.path)):
        if portion and rows + file.rows > ROWS_AT_ONCE:
            yield portion
            portion, rows = [], 0
        portion.append(file)
        rows += file.rows
    yield portion


def _file(store: pafs.FileSystem, path: str, schema: pa.Schema) -> _File | None:
    """None for a file with an unexpected schema, which is not touched."""
    try:
        with store.open_input_file(path) as file:
            parquet = pq.ParquetFile(file)
            if not parquet.schema_arrow.equals(schema):
                return None
            return _File(path, parquet.metadata.num_rows, *_span(parquet.metadata, schema))
    except pa.ArrowInvalid:  # not Parquet: it stays, because the report names it
        return None


def _span(footer: pq.FileMetaData, schema: pa.Schema) -> tuple[datetime, datetime] | tuple[()]:
    if MINUTE not in schema.names or footer.num_row_groups != 1:
        return ()
    statistics = footer.row_group(0).column(schema.get_field_index(MINUTE)).statistics
    return (statistics.min, statistics.max) if statistics is not None and statistics.has_min_max else ()


def _merge_portions(store: pafs.FileSystem, day: str, portions: Sequence[list[_File]], schema: pa.Schema) -> int:
    """Merge each portion. A file with rows of a minute that the next one has, too, is part of both of them."""
    gone = 0
    begun: list[_File] = []
    since: datetime | None = None
    for portion, following in zip_longest(portions, portions[1:], fillvalue=()):
        until = _cut(portion, following)
        files = [*begun, *portion]
        unfinished = [file for file in files if until is not None and file.last is not None and file.last >= until]
        parts = [
            _Part(file.path, since if file in begun else None, until if file in unfinished else None) for file in files
        ]
        gone += _merge(store, day, parts, schema)
        begun, since = unfinished, until
    return gone


def _cut(portion: Sequence[_File], following: Sequence[_File]) -> datetime | None:
    """The minute with which the following files begin, if most of the portion is before it."""
    begin = following[0].first if following else None
    if begin is None or any(file.last is None for file in portion):
        return None
    before = [file for file in portion if file.last is not None and file.last < begin]
    return begin if 2 * len(before) >= len(portion) else None


@dataclass(frozen=True, slots=True)
class _Part:
    """A file, or its rows `since` a minute and before the minute `until` which the rest of them is left."""

    path: str
    since: datetime | None
    until: datetime | None

    @property
    def is_whole(self) -> bool:
        return self.since is None and self.until is None

    def of(self, table: pa.Table) -> pa.Table:
        """The rows. One without a minute is among the last ones."""
        if self.until is not None:
            table = table.filter(pc.fill_null(pc.less(table[MINUTE], self.until), False))
        if self.since is not None:
            table = table.filter(pc.fill_null(pc.greater_equal(table[MINUTE], self.since), True))
        return table


def _merge(store: pafs.FileSystem, day: str, parts: Sequence[_Part], schema: pa.Schema) -> int:
    tables = {part: part.of(table) for part in parts if (table := _read(store, part.path, schema)) is not None}
    if len(tables) < 2 and all(part.is_whole for part in tables):
        return 0
    table = pa.concat_tables(tables.values())
    _write(store, day, _without_copies(table))
    gone = [part.path for part in tables if part.until is None]
    for path in gone:
        store.delete_file(path)
    log.info("usage files compacted", day=Path(day).name, files=len(gone), rows=table.num_rows)
    return len(gone)


def _read(store: pafs.FileSystem, path: str, schema: pa.Schema) -> pa.Table | None:
    """The rows of the file. None if it is damaged; it then stays, and the report names it.

    By this thread alone: those that Arrow starts otherwise stay in the worker, with what they have taken of its memory.
    """
    try:
        with store.open_input_file(path) as file:
            parquet = pq.ParquetFile(file, pre_buffer=False, page_checksum_verification=True)
            return parquet.read(use_threads=False).cast(schema)
    except (pa.ArrowInvalid, OSError) as error:
        log.warning("a usage file cannot be read", file=path, problem=str(error)[:200])
        return None


def _without_copies(table: pa.Table) -> pa.Table:
    """The rows without exact duplicates in all columns; rows without an identity are all kept. With their note."""
    schema = table.schema
    known = pc.is_valid(table[IDENTITY if IDENTITY in schema.names else "hour"])
    named = (
        table.filter(known).group_by(schema.names, use_threads=False).aggregate([]).select(schema.names).cast(schema)
    )
    order = [(name, "ascending") for name in ORDER if name in schema.names]
    once = pa.concat_tables([named.sort_by(order), table.filter(pc.invert(known))])
    return with_note(once) if IDENTITY in schema.names else once


def _write(store: pafs.FileSystem, day: str, table: pa.Table) -> None:
    """Write the complete file to disk before anything is deleted."""
    name = f"{COMPACTED}{uuid4().hex}.parquet"
    if not isinstance(store, pafs.LocalFileSystem):  # an object becomes visible when its upload is complete
        with store.open_output_stream(f"{day}/{name}") as stream:
            pq.write_table(table, stream, compression="zstd", write_page_checksum=True)
        return
    unfinished = Path(day, f"{UNFINISHED}{name}")
    with unfinished.open("wb") as file:
        pq.write_table(table, file, compression="zstd", write_page_checksum=True)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(Path(day, name))
    descriptor = os.open(day, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
