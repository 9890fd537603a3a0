"""The table of day sums: of each day of usage its sums by hour, and of some hours those by minute, as Parquet files.

It lies in the state folder, under a digest of the usage folder's URL. A file of it is written whole and replaced at
once, and says in its metadata which files it was made of: whoever reads it, sees one state of the day.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.errors import PipelineError
from pipeline.schemas import KEY
from pipeline.usage.counts import Counts
from pipeline.usage.folder import Mark

SHAPE = 1
"""Rises with every change of what a day has, or of how its rows are judged: what was made before is made again."""
HEADER = b"day-sums"
ABANDONED_S = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What the sums of a day were made of, and the results of its rows.

    `sources`: the marks of its files, by name; `elsewhere`: of its folder's files the days of which they have rows as
    well; `is_final`: whether the same files will give the same sums later, without a row that is in the future today
    or of a minute that was left to the next run.
    """

    sources: Mapping[str, Mark]
    elsewhere: Mapping[str, list[str]] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    is_final: bool = True


@dataclass(frozen=True, slots=True)
class Day:
    """The sums of a day, open: they stay as they are while another run replaces them."""

    day: str
    header: Header
    file: pq.ParquetFile

    def sums(self) -> pa.Table:
        """The sums by hour."""
        return self.file.read(use_threads=False)


@dataclass(frozen=True, slots=True)
class DayTable:
    """The table of one usage folder."""

    folder: Path

    @classmethod
    def of(cls, state: Path, url: str) -> DayTable:
        """The table of the usage folder at this URL, under the folder `state`."""
        digest = hashlib.sha256(f"{SHAPE} {url}".encode()).hexdigest()
        return cls(state / digest[:16])

    def headers(self) -> dict[str, Header]:
        """What the table has, by day."""
        return {path.name.split(".")[0]: _header(_opened(path)) for path in self.folder.glob("*.hours.parquet")}

    def open(self, day: str) -> Day:
        """The day's sums."""
        file = _opened(self._place(day, "hours"))
        return Day(day, _header(file), file)

    def write(self, day: str, sums: pa.Table, header: Header) -> None:
        """Replace the day's sums."""
        self._write(self._place(day, "hours"), sums, asdict(header))

    def minutes(self, day: Day, hours: Collection[int]) -> pa.Table | None:
        """The day's sums by minute, if these hours are kept of the same files."""
        path = self._place(day.day, "minutes")
        if not path.exists():
            return None
        file = _opened(path)
        kept = _metadata(file)
        is_of_day = kept["sources"] == day.header.sources and kept["hours"].keys() >= set(map(str, hours))
        return file.read(use_threads=False) if is_of_day else None

    def write_minutes(self, day: Day, sums: pa.Table, hours: Iterable[int]) -> None:
        """Keep the sums of these hours by minute."""
        about = {"sources": day.header.sources, "hours": dict.fromkeys(map(str, hours), True)}
        self._write(self._place(day.day, "minutes"), sums, about)

    def _place(self, day: str, what: str) -> Path:
        return self.folder / f"{day}.{what}.parquet"

    def _write(self, path: Path, sums: pa.Table, about: Mapping[str, Any]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._sweep()
        with NamedTemporaryFile(dir=self.folder, suffix=".part", delete=False) as out:
            pq.write_table(sums.replace_schema_metadata({HEADER: json.dumps(about)}), out, compression="zstd")
            out.flush()
            os.fsync(out.fileno())
        os.replace(out.name, path)

    def _sweep(self) -> None:
        """Delete what runs have left that were killed while they wrote."""
        for part in self.folder.glob("*.part"):
            if part.stat().st_mtime < time.time() - ABANDONED_S:
                part.unlink(missing_ok=True)


def _opened(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path, read_dictionary=list(KEY), pre_buffer=False)
    except (OSError, pa.ArrowException, ValueError) as error:
        raise PipelineError(f"The day sums in {path} cannot be read: delete the file, and run it again.") from error


def _metadata(file: pq.ParquetFile) -> dict[str, Any]:
    about: dict[str, Any] = json.loads(file.schema_arrow.metadata[HEADER])
    return about


def _header(file: pq.ParquetFile) -> Header:
    about = _metadata(file)
    counts = about["counts"] | {"rejected": [tuple(each) for each in about["counts"]["rejected"]]}
    return Header(**about | {"counts": Counts(**counts)})
