"""Merges the many small usage files of a past day into few. Nothing is lost or counted twice, even if it is killed.

A file is deleted only once all its rows are on disk in another file. Until then they exist twice, which the sums allow:
of each record the highest version counts once. Unfinished files of killed writers are deleted after an hour: readers
skip them, and their rows are in the stream or in the files that were being merged.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from pipeline.usage.folder import UsageFolder

SMALL, COMPACTED, UNFINISHED = "part-", "compact-", "_tmp-"
ABANDONED = timedelta(hours=1)  # far longer than writing any file takes
ROWS_AT_ONCE = 1_000_000


def compact(folder: UsageFolder, now: datetime) -> int:
    """Merge the small files of every past day. Returns the number of deleted files. Raises OSError."""
    today = now.astimezone(UTC).date().isoformat()
    merged = 0
    for kind in ("usage", "connections"):
        for day in folder.days(kind)[0]:
            _sweep(folder, f"{folder.root}/{kind}/date={day}", now)
            if day < today:
                merged += sum(_merge(folder, kind, day, names) for names in _portions(folder, kind, day))
    return merged


def _sweep(folder: UsageFolder, day: str, now: datetime) -> None:
    """Delete unfinished files of killed writers."""
    for info in folder.filesystem.get_file_info(pafs.FileSelector(day)):
        if info.is_file and info.base_name.startswith(UNFINISHED) and info.mtime < now - ABANDONED:
            folder.filesystem.delete_file(info.path)


def _portions(folder: UsageFolder, kind: str, day: str) -> Iterator[list[str]]:
    """The paths of small files that are merged into one: of one schema, and about ROWS_AT_ONCE."""
    portions: dict[str, list[str]] = {}
    rows: dict[str, int] = {}
    for child in folder.files(kind, day):
        if not child.name.startswith(SMALL) or child.is_folder:
            continue
        with suppress(pa.ArrowException, OSError, ValueError):  # a damaged file is left alone: the report names it
            with folder.filesystem.open_input_file(child.path) as source:
                found = pq.ParquetFile(source, pre_buffer=False)
                schema, number = str(found.schema_arrow), found.metadata.num_rows
            if schema in portions and rows[schema] + number > ROWS_AT_ONCE:
                yield portions.pop(schema)
            rows[schema] = number + (rows[schema] if schema in portions else 0)
            portions.setdefault(schema, []).append(child.path)
    yield from portions.values()


def _merge(folder: UsageFolder, kind: str, day: str, paths: list[str]) -> int:
    """Write the files as one, and delete them; one that turns out to be damaged stays. Returns how many are deleted."""
    read: dict[str, pa.Table] = {}
    for path in paths if len(paths) > 1 else ():
        with suppress(pa.ArrowException, OSError, ValueError), folder.filesystem.open_input_file(path) as source:
            file = pq.ParquetFile(source, pre_buffer=False, page_checksum_verification=True)
            read[path] = file.read(use_threads=False)
    if len(read) < 2:
        return 0
    _write(folder, f"{folder.root}/{kind}/date={day}", pa.concat_tables(read.values()))
    for path in read:
        folder.filesystem.delete_file(path)
    return len(read)


def _write(folder: UsageFolder, day: str, table: pa.Table) -> None:
    """Write the complete file to disk before anything is deleted."""
    name = f"{COMPACTED}{uuid4().hex}.parquet"
    if not isinstance(folder.filesystem, pafs.LocalFileSystem):  # an object appears when its upload is complete
        with folder.filesystem.open_output_stream(f"{day}/{name}") as stream:
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
