"""Merges many small usage files of a day into few. Nothing is lost or counted twice, even if the process is killed.

Unfinished files of killed writers are deleted after an hour: readers skip them, and their rows are in the stream or in
the files that were being merged.

A file is deleted only once all its rows are on disk in another file. Until then some rows exist twice, which the
pipeline handles: for each record_id it counts the highest seq. Only rows that are equal in all columns are dropped
here. The pipeline decides which version of a record counts, because it knows whether the newest one can be billed.

The day before (or one whose night was missed) is cut at minutes where it takes several files, so that versions of a
record are in one of them: then the pipeline need not look for them in files whose footers say that each record is there
once (`workers.record_ids`).
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import zip_longest
from pathlib import Path
from typing import IO
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
CLOCKS_APART = timedelta(minutes=5)
"""Of a store and of this machine, at most."""
LONG_AGO = timedelta(days=31)  # so that the first night of a new version does not rewrite years
ROWS_AT_ONCE = 1_000_000
MANY = 8  # compacted files of a day, to which late records add one every night


def compact(usage_dir: str, now: datetime) -> int:
    """Compact every past day. Returns the number of deleted files. Raises OSError; nothing is lost then."""
    store, root = _open(usage_dir)
    today = f"date={now.astimezone(UTC):%Y-%m-%d}"
    gone = 0
    for name, schema in FOLDERS.items():
        days = sorted(folder.path for folder in _folders(store, f"{root}/{name}"))
        for day in days:
            _sweep(store, day, now)
        for day in days:
            if (name_of := Path(day).name) < today:
                gone += _compact_day(store, day, schema, ended=_end_of(name_of, now))
    return gone


def compact_today(usage_dir: str, now: datetime) -> int:
    """Compact what was written of the running day before this hour. Returns as `compact` does."""
    store, root = _open(usage_dir)
    at = now.astimezone(UTC)
    this_hour = at.replace(minute=0, second=0, microsecond=0)
    today = f"date={at:%Y-%m-%d}"
    return sum(
        _compact_day(store, folder.path, schema, before=this_hour)
        for name, schema in FOLDERS.items()
        for folder in _folders(store, f"{root}/{name}")
        if folder.base_name == today
    )


def days_with_new_files(usage_dir: str, now: datetime, computed: Mapping[str, datetime]) -> list[date]:
    """The days before yesterday in which a file that compaction did not write appeared since the previous night, or
    since the last run of the month, if that was earlier.

    `computed`: when the last run of each month began.
    """
    store, root = _open(usage_dir)
    found = []
    for name in FOLDERS:
        for folder in _folders(store, f"{root}/{name}"):
            day = _day_of(folder.base_name)
            if day is None or day >= now.date() - timedelta(days=1):
                continue
            since = min(now - A_NIGHT, computed.get(f"{day:%Y-%m}", now) - CLOCKS_APART)
            if _has_new_file(store, folder.path, since):
                found.append(day)
    return found


def _folders(store: pafs.FileSystem, kind: str) -> list[pafs.FileInfo]:
    """The folders of days. A file named like one, an archive of a day for example, is none."""
    found = store.get_file_info(pafs.FileSelector(kind, allow_not_found=True))
    return [info for info in found if info.type == pafs.FileType.Directory and info.base_name.startswith("date=")]


def _day_of(name: str) -> date | None:
    try:
        return date.fromisoformat(name.removeprefix("date="))
    except ValueError:
        return None


def _has_new_file(store: pafs.FileSystem, day: str, since: datetime) -> bool:
    infos = store.get_file_info(pafs.FileSelector(day))
    written = [info for info in infos if info.is_file and not info.base_name.startswith(("_", ".", COMPACTED))]
    return any(info.mtime is not None and info.mtime > since for info in written)


def _end_of(day: str, now: datetime) -> datetime | None:
    """When the day of a folder ended; None if that is long ago, or the folder is not named by a day."""
    begin = _day_of(day)
    if begin is None:
        return None
    end = datetime(begin.year, begin.month, begin.day, tzinfo=UTC) + timedelta(days=1)
    return end if end > now - LONG_AGO else None


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
    """A file to be merged: its number of rows and, where they have minutes, the first and last of them."""

    path: str
    rows: int
    first: datetime | None = None
    last: datetime | None = None


def _compact_day(
    store: pafs.FileSystem,
    day: str,
    schema: pa.Schema,
    *,
    before: datetime | None = None,
    ended: datetime | None = None,
) -> int:
    """Merge the day's small files, or those written `before` a time. Where files are left that were merged before it
    `ended`, as they are every hour, all become one, or are cut: also where the first night was missed or killed.
    """
    found = store.get_file_info(pafs.FileSelector(day, allow_not_found=True))
    infos = sorted(
        (info for info in found if info.is_file and (before is None or info.mtime < before)), key=lambda info: info.path
    )
    merged = [info for info in infos if info.base_name.startswith(COMPACTED)]
    is_new = ended is not None and (not merged or any(info.mtime < ended for info in merged))
    done = [info.path for info in merged]
    chosen = [info.path for info in infos if info.base_name.startswith(SMALL)]
    if len(done) >= MANY or is_new:
        chosen = [*done, *chosen]
    known = [file for path in chosen if (file := _file(store, path, schema)) is not None]
    return _merge(store, day, list(_by_rows(known)), schema, is_cut=is_new)


def _by_rows(files: Iterable[_File]) -> Iterator[list[_File]]:
    """Group the files, in the order of their minutes, into portions of about ROWS_AT_ONCE."""
    portion: list[_File] = []
    rows = 0
    for file in sorted(files, key=lambda file: (file.first is None, file.first, file.last, file.path)):
        if portion and rows + file.rows > ROWS_AT_ONCE:
            yield portion
            portion, rows = [], 0
        portion.append(file)
        rows += file.rows
    yield portion


def _file(store: pafs.FileSystem, path: str, schema: pa.Schema) -> _File | None:
    """None for a file that is not Parquet or has an unexpected schema. It is not touched, and the report names it."""
    with store.open_input_file(path) as file, _left_alone_if_damaged(path):
        parquet = _parquet(file)
        if parquet.schema_arrow.equals(schema):
            return _File(path, parquet.metadata.num_rows, *_span(parquet, schema))
    return None


def _parquet(file: pa.NativeFile) -> pq.ParquetFile:
    return pq.ParquetFile(file, pre_buffer=False, page_checksum_verification=True)


@contextmanager
def _left_alone_if_damaged(path: str) -> Iterator[None]:
    """Log why the open file cannot be read, whatever the error: one changed bit of a footer can cause any of Arrow's.

    What the folder or the store refuses is raised where a file is listed, opened, written or deleted.
    """
    try:
        yield
    except Exception as error:
        log.warning("a usage file cannot be read", file=path, problem=str(error)[:200])


def _span(parquet: pq.ParquetFile, schema: pa.Schema) -> tuple[datetime, datetime] | tuple[()]:
    """The first and last minute. Not as the footer states them: PyArrow ends the process if it is asked for the
    statistics of a column whose footer is damaged.
    """
    if MINUTE not in schema.names:
        return ()
    ends = pc.min_max(parquet.read([MINUTE], use_threads=False)[MINUTE])
    try:
        first, last = ends["min"].as_py(), ends["max"].as_py()
    except (OverflowError, ValueError):  # a minute that Python has no date for
        return ()
    return () if first is None else (first, last)


def _merge(
    store: pafs.FileSystem, day: str, portions: Sequence[Sequence[_File]], schema: pa.Schema, *, is_cut: bool
) -> int:
    """Write each portion of more than one file as one; where `is_cut`, without the minutes that the next one has, too:
    those rows are written with that.
    """
    gone = 0
    waiting: dict[str, pa.Table] = {}  # by file the rows that are not written yet
    for portion, following in zip_longest(portions, portions[1:], fillvalue=()):
        begin = following[0].first if is_cut and following else None
        if len(portion) < 2 and not waiting and not any(_reaches(file, begin) for file in portion):
            continue
        read = {file.path: table for file in portion if (table := _read(store, file.path, schema)) is not None}
        tables, had_waiting = waiting | read, bool(waiting)
        waiting = _since(tables.items(), begin)
        if len(tables) < 2 and not waiting and not had_waiting:
            continue
        now = (_before(table, begin) if path in waiting else table for path, table in tables.items())
        gone += _replace(store, day, pa.concat_tables(now), [path for path in tables if path not in waiting])
    return gone


def _reaches(file: _File, begin: datetime | None) -> bool:
    return begin is not None and file.last is not None and file.last >= begin


def _since(tables: Iterable[tuple[str, pa.Table]], begin: datetime | None) -> dict[str, pa.Table]:
    """By file the rows since the minute, if they are few enough to be kept in memory until they are written."""
    if begin is None:
        return {}
    late = {path: table.filter(pc.fill_null(pc.greater_equal(table[MINUTE], begin), False)) for path, table in tables}
    rows = sum(len(table) for table in late.values())
    return {path: table for path, table in late.items() if len(table)} if rows <= ROWS_AT_ONCE // 2 else {}


def _before(table: pa.Table, begin: datetime | None) -> pa.Table:
    """The other rows of a table, those without a minute among them."""
    return table.filter(pc.fill_null(pc.less(table[MINUTE], begin), True))


def _replace(store: pafs.FileSystem, day: str, table: pa.Table, files: Sequence[str]) -> int:
    if len(table):
        _write(store, day, _without_copies(table))
    for path in files:
        store.delete_file(path)
    log.info("usage files compacted", day=Path(day).name, files=len(files), rows=table.num_rows)
    return len(files)


def _read(store: pafs.FileSystem, path: str, schema: pa.Schema) -> pa.Table | None:
    """The rows of the file. None if it is damaged; it then stays, and the report names it.

    By this thread alone: those that Arrow starts otherwise stay in the worker, with what they have taken of its memory.
    """
    with store.open_input_file(path) as file, _left_alone_if_damaged(path):
        return _parquet(file).read(use_threads=False).cast(schema)
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
            _write_parquet(table, stream)
        return
    unfinished = Path(day, f"{UNFINISHED}{name}")
    with unfinished.open("wb") as file:
        _write_parquet(table, file)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(Path(day, name))
    descriptor = os.open(day, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_parquet(table: pa.Table, file: IO[bytes]) -> None:
    # In one row group: of several, no reader asks for the first and last minute.
    size = max(1, len(table))
    pq.write_table(table, file, compression="zstd", write_page_checksum=True, row_group_size=size)
