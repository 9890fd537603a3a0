"""How much a run is about to read, found out before Spark is started: the bytes of its files, and about how many rows.

Bytes alone say little of the work: a row takes from 5 to 150 of them. The footer of a file says how many rows it has.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pipeline.schemas import KEPT_SHAPE


@dataclass(frozen=True, slots=True)
class Amount:
    """Some files together. `rows`: an estimate, by the largest file of each day."""

    bytes: int = 0
    rows: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.bytes + other.bytes, self.rows + other.rows)


def of_month(folder: str, month: str) -> Amount:
    """All records of the month in a local folder."""
    return _together(_of_day(files) for _, files in _days(folder, month))


def to_be_read(folder: str, month: str, *, incremental: bool = False) -> Amount:
    """What a run reads of it; an incremental one the days with a file that is newer than the hours it has kept."""
    known, since = _kept(Path(folder, "hourly", f"_{month}.json")) if incremental else ((), 0.0)
    changed = (
        files
        for day, files in _days(folder, month)
        if day not in known or any(found.st_mtime > since for _, found in files)
    )
    return _together(map(_of_day, changed))


Files = list[tuple[Path, os.stat_result]]


def _days(folder: str, month: str) -> Iterator[tuple[str, Files]]:
    for day in sorted(Path(folder, "usage").glob(f"date={month}-*")):
        yield day.name.removeprefix("date="), list(_files(day))


def _files(day: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for file in day.glob("*.parquet"):
        with suppress(OSError):  # the compaction removed it meanwhile, or a link leads nowhere: the run will say so
            yield file, file.stat()


def _kept(manifest: Path) -> tuple[Collection[str], float]:
    """The days whose hours are kept in today's shape, and since when."""
    try:
        known = json.loads(manifest.read_text(encoding="utf-8"))
        return [day for day, entry in known.items() if entry["shape"] == KEPT_SHAPE], manifest.stat().st_mtime
    except (OSError, ValueError, LookupError, TypeError, AttributeError):  # nothing is kept, or nothing of use
        return (), 0.0


def _together(amounts: Iterable[Amount]) -> Amount:
    return sum(amounts, Amount())


def _of_day(files: Files) -> Amount:
    size = sum(found.st_size for _, found in files)
    if not size:
        return Amount()
    largest, its = max(files, key=lambda file: file[1].st_size)
    return Amount(size, rows_in(largest) * size // its.st_size)


def rows_in(file: Path) -> int:
    """The number of rows of a Parquet file by its footer; 0 if that cannot be read, or not without Arrow."""
    try:  # here, because a run that computes nothing does not need its 0.1 s
        from pyarrow import ArrowException, parquet
    except ImportError:  # on a cluster, the job needs nothing but Spark
        return 0
    try:
        return int(parquet.read_metadata(file).num_rows)
    except (OSError, ValueError, ArrowException):  # of a damaged footer; the run will name the file
        return 0
