"""How much a run is about to read, found out before Spark is started: the bytes of its files, and about how many rows.

Bytes alone say little of the work: a row takes from 5 to 150 of them. The footer of a file says how many rows it has.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline.schemas import KEPT_SHAPE

TAIL = 8  # the length of the footer, and PAR1
ENOUGH = 65_536
"""A footer begins with the columns and the number of rows; what follows of it may be long."""
STOP, BOOLEANS, BYTE, NUMBERS, DOUBLE, TEXT, LISTS, STRUCT = 0, (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 12
"""Types of the compact protocol of Thrift, in which a footer is written."""
ROWS = 3
"""The field of a footer that has the number of rows."""


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
        yield day.name.removeprefix("date="), [(file, file.stat()) for file in day.glob("*.parquet")]


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
    """The number of rows of a Parquet file by its footer; 0 if that cannot be read."""
    try:
        with file.open("rb") as content:
            content.seek(-TAIL, os.SEEK_END)
            length = int.from_bytes(content.read(4), "little")
            content.seek(-TAIL - length, os.SEEK_END)
            return _Footer(content.read(min(length, ENOUGH))).rows
    except (OSError, IndexError, ValueError):
        return 0


class _Footer:
    """As much of the compact protocol as it takes to find one number. Raises IndexError where the content ends."""

    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 0

    @property
    def rows(self) -> int:
        for field, kind in self._fields():
            if field == ROWS and kind in NUMBERS:
                number = self._number()
                return number >> 1 ^ -(number & 1)
            self._skip(kind)
        return 0

    def _fields(self) -> Iterator[tuple[int, int]]:
        field = 0
        while (head := self._byte()) & 15 != STOP:
            if head >> 4:
                field += head >> 4
            else:
                field = self._number() >> 1
            yield field, head & 15

    def _byte(self) -> int:
        self.at += 1
        return self.content[self.at - 1]

    def _number(self) -> int:
        number = shift = 0
        while (byte := self._byte()) & 128:
            number |= (byte & 127) << shift
            shift += 7
        return number | byte << shift

    def _skip(self, kind: int) -> None:
        if kind == BYTE:
            self.at += 1
        elif kind in NUMBERS:
            self._number()
        elif kind == DOUBLE:
            self.at += 8
        elif kind == TEXT:
            length = self._number()
            self.at += length
        elif kind in LISTS:
            self._skip_list()
        elif kind == STRUCT:
            for _, inside in self._fields():
                self._skip(inside)
        elif kind not in BOOLEANS:  # their value is the type
            raise ValueError(f"a footer has no values of the type {kind}")

    def _skip_list(self) -> None:
        head = self._byte()
        length = self._number() if head >> 4 == 15 else head >> 4
        for _ in range(length):
            self._skip(BYTE if head & 15 in BOOLEANS else head & 15)
