"""The files of a folder, checked one by one before anything is computed (docs/costs.md, "Bad input").

`pipeline.folders` says what files there are, on this machine or in a store.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline.errors import FileGoneError, InputError
from pipeline.folders import DENIED, LINK_TO_ITSELF, Child, Footer, Footers, children, is_hidden
from pipeline.held import nothing, together
from pipeline.months import Month
from pipeline.schemas import KEPT_SHAPE, NAME_THEIR_MINUTE, NOTE, ONCE_EACH, ddl

FIELD = re.compile(r"^( +)(?:required|optional|repeated) (\w+)(?:\(\d+\))? (.+?)(?: \((.+?)\))?(?: = \d+)?(?:;| \{)$")
CODEC = re.compile(r"ColumnMetaData\{(\w+) \[(\w+)\]")
CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD", "LZ4", "LZ4_RAW")
PATTERN = "{}[]*?\\:"
"""Characters by which Spark and Hadoop take a name for a pattern or an address."""
MICROSECONDS, NANOSECONDS = "us", "ns"
MINUTE = "minute"
DAY_US = 86_400_000_000
NANOSECONDS_OF = {"MILLIS": 1_000_000, "MICROS": 1_000, "NANOS": 1}
NOTHING_MORE: Mapping[str, str] = {}
NO_FOOTERS: Mapping[tuple[str, str], tuple[Any, ...]] = {}


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A readable file: its day, and by its footer its number of rows, its format of times, what it says of its
    record_ids (`schemas.NOTE`), and the `first` and `last` time of its rows in microseconds since 1970, if it says so.
    """

    path: str
    day: str
    rows: int
    time_unit: str
    ids: str = ""
    first: int | None = None
    last: int | None = None

    @property
    def of_its_footer(self) -> tuple[int, str, str, int | None, int | None]:
        return self.rows, self.time_unit, self.ids, self.first, self.last

    @property
    def span(self) -> tuple[float, float]:
        """The first and last time, which are not before and not after any other where the footer does not tell."""
        return (-math.inf, math.inf) if self.first is None or self.last is None else (self.first, self.last)

    def may_meet(self, other: SourceFile) -> bool:
        """Whether a row of this file can have the time of a row of the other one, as far as their footers say."""
        return self.span[0] <= other.span[1] and other.span[0] <= self.span[1]


@dataclass(frozen=True, slots=True)
class RejectedFile:
    """An ignored file, and why."""

    path: str
    reason: str
    day: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """What a folder holds for one month. `fingerprints`: day → a digest of its files' names, sizes and times; `marks`:
    day → such a digest of each of its files, by its name.
    """

    root: str
    files: tuple[SourceFile, ...]
    rejected: tuple[RejectedFile, ...]
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    marks: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def ids_name_their_minute(self) -> bool:
        return all(file.ids for file in self.files)

    @property
    def may_repeat(self) -> Listing:
        """The files that may have a record_id twice, or one that another file has, or rows without one.

        Where all ids name their minute, two files can have one in common only if they have a minute in common.
        """
        if not self.ids_name_their_minute:
            return self
        by_day: dict[str, list[SourceFile]] = {}
        for file in self.files:
            if file.rows:
                by_day.setdefault(file.day, []).append(file)
        found = (file for of_day in by_day.values() for file in _repeating(of_day))
        return replace(self, files=tuple(found))


def _repeating(files: Iterable[SourceFile]) -> Iterator[SourceFile]:
    """Of the files of a day those that meet another one, or have an id twice or rows without one themselves."""
    in_order = sorted(files, key=lambda file: file.span)
    until: float | None = None
    for file, following in zip(in_order, [*in_order[1:], None], strict=True):
        first, last = file.span
        meets = until is not None and first <= until
        meets |= following is not None and following.span[0] <= last
        until = last if until is None else max(until, last)
        if meets or file.ids != ONCE_EACH:
            yield file


def list_month(
    spark: SparkSession,
    root: str,
    month: Month,
    columns: dict[str, str],
    known: Mapping[str, object] | None = None,
    only: Set[str] | None = None,
    optional: Mapping[str, str] = NOTHING_MORE,
    left_out: Mapping[str, str] = NOTHING_MORE,
    footers: Mapping[tuple[str, str], tuple[Any, ...]] = NO_FOOTERS,
) -> Listing:
    """The month's files under root/date=YYYY-MM-DD/, each with its footer read; a missing folder is an empty one.

    Days with a `known` fingerprint are not looked into; `only` these days, where given. `optional`: columns that a file
    may lack. `left_out`: files, named as `place_of` does, that turned out to be unreadable, and why. `footers`: by day
    and mark, what the footer of a file said before, as `SourceFile.of_its_footer` has it.
    """
    files: list[SourceFile] = []
    rejected: list[RejectedFile] = []
    fingerprints: dict[str, str] = {}
    marks: dict[str, dict[str, str]] = {}
    preflight = _Preflight(Footers.of(spark), columns, optional, left_out, footers)
    for folder in children(spark, root):
        day = folder.name.removeprefix("date=")
        if is_hidden(folder):
            continue
        if not folder.is_folder or not folder.name.startswith("date=") or not is_date(day):
            rejected.append(RejectedFile(printable(f"{root}/{folder.name}"), "is not a folder named date=YYYY-MM-DD"))
        elif day.startswith(f"{month}-") and (only is None or day in only):
            inside = [child for child in children(spark, folder.path) if not is_hidden(child)]
            marks[day] = {child.name: _mark(child) for child in inside}
            fingerprints[day] = digest(marks[day])
            if known is None or known.get(day) != fingerprints[day]:
                for child in inside:
                    found = preflight.of(child, day, marks[day][child.name])
                    files.append(found) if isinstance(found, SourceFile) else rejected.append(found)
    return Listing(root, tuple(files), tuple(rejected), fingerprints, marks)


def _mark(file: Child) -> str:
    return digest((file.name, file.size, file.modified_ms))


def digest(facts: object) -> str:
    """What differs wherever the facts differ, or the shape of what is kept."""
    return hashlib.sha256(repr((KEPT_SHAPE, facts)).encode()).hexdigest()


def state_of(spark: SparkSession, folder: str) -> str:
    """What differs once a file in the folder has changed, was cut off by a power failure, or is gone."""
    return digest([_mark(child) for child in children(spark, folder) if not is_hidden(child)])


@dataclass(frozen=True, slots=True)
class _Preflight:
    """Judges single files by their names and footers."""

    reader: Footers
    columns: dict[str, str]
    optional: Mapping[str, str]
    left_out: Mapping[str, str]
    footers: Mapping[tuple[str, str], tuple[Any, ...]]

    def of(self, file: Child, day: str, mark: str) -> SourceFile | RejectedFile:
        said = self.footers.get((day, mark))
        if said is not None and place_of(file.path) not in self.left_out:
            return SourceFile(file.path, day, *said)
        reason, found = self._judged(file, day)
        return found or RejectedFile(printable(file.path), reason, day)

    def _judged(self, file: Child, day: str) -> tuple[str, SourceFile | None]:
        if reason := self.left_out.get(place_of(file.path)):
            return reason, None
        if file.is_folder:
            return "is a folder inside a day", None
        if file.size == LINK_TO_ITSELF:
            return "is a link to itself", None
        if file.size == 0:
            return "is empty (0 bytes)", None
        if printable(file.name) != file.name:
            return "has a name that is not UTF-8: rename it", None
        if odd := sorted(set(PATTERN) & set(file.name)):
            return f"has {' '.join(odd)} in its name: rename it", None
        try:
            footer = self.reader.read(file.path, MINUTE, NOTE)
        except Exception as error:  # any other error of the reader: the file is not usable Parquet
            if any(word in str(error) for word in DENIED):  # it is as good as others: without it the sums are wrong
                raise InputError(f"{file.path} may not be read: permission denied to the user of the job.") from error
            if self.reader.is_gone(file.path):
                raise FileGoneError(file.path) from None
            return "is not Parquet, or is truncated", None
        types = parse_schema(footer.schema)
        wanted = self.columns | {name: kind for name, kind in self.optional.items() if name in types}
        reason = _mismatch(types, wanted) or _ambiguous(footer.schema, wanted) or _compressed(footer.storage, wanted)
        if reason:
            return reason, None
        notes = {f"{note}, {footer.rows} rows": note for note in (NAME_THEIR_MINUTE, ONCE_EACH)}
        ids = notes.get(footer.note or "", "")  # with another number of rows it was copied
        span = _span_in(day, *_span(types, footer))
        return "", SourceFile(file.path, day, footer.rows, _time_unit(types, self.columns), ids, *span)


def _span(types: dict[str, tuple[str, str]], footer: Footer) -> tuple[int | None, int | None]:
    """The first and last minute in microseconds since 1970; nothing where the footer has none or in an unknown unit."""
    annotation = types.get(MINUTE, ("", ""))[1]
    unit = next((unit for unit in NANOSECONDS_OF if unit in annotation), None)
    if unit is None or footer.bounds is None:
        return None, None
    first, last = (bound * NANOSECONDS_OF[unit] // 1000 for bound in footer.bounds)
    return first, last


def _span_in(day: str, first: int | None, last: int | None) -> tuple[int | None, int | None]:
    """The span, if it is one of times of the day: a footer has no checksum, and with a flipped bit it would keep files
    from being looked through for copies.
    """
    if first is None or last is None:
        return None, None
    begin = int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) * 1_000_000
    return (first, last) if begin <= first <= last < begin + DAY_US else (None, None)


def printable(path: str) -> str:
    """The path with bytes that are no text written as `\\udcf6`: such a name can be neither printed nor stored."""
    return path.encode(errors="backslashreplace").decode()


def place_of(path: str) -> str:
    """The path from the folder of the kind of records on: it is the same in a listing and in an error of Spark."""
    return "/".join(path.split("/")[-3:])


def parse_schema(text: str) -> dict[str, tuple[str, str]]:
    """Column name → (physical type, annotation) of a Parquet schema in its printed form."""
    return {name: (physical, annotation) for name, physical, annotation in _columns(text)}


def _columns(text: str) -> Iterator[tuple[str, str, str]]:
    """Each column of the schema, not what is nested in one: its name, type (or `group`) and annotation."""
    found = [match for line in text.splitlines() if (match := FIELD.match(line))]
    for match in found:
        if match[1] == found[0][1]:
            yield match[3], match[2], match[4] or ""


def _ambiguous(schema: str, wanted: Iterable[str]) -> str:
    """Spark does not tell columns apart whose names differ in case."""
    names = [name for name, *_ in _columns(schema)]
    for name in wanted:
        if len(same := [each for each in names if each.lower() == name.lower()]) > 1:
            return f"has the column {name} more than once ({', '.join(same)})"
    return ""


def _compressed(storage: str, wanted: Collection[str]) -> str:
    unknown = {codec for codec, name in CODEC.findall(storage) if name in wanted and codec not in CODECS}
    return f"is compressed with {min(unknown)}, not with one of {', '.join(CODECS[1:])}" if unknown else ""


def _mismatch(types: dict[str, tuple[str, str]], columns: dict[str, str]) -> str:
    missing = [name for name in columns if name not in types]
    if missing:
        return f"lacks the column {missing[0]}"
    for name, wanted in columns.items():
        if not _readable(types[name], wanted):
            physical, annotation = types[name]
            return f"has the column {name} as {annotation or physical}, not as {wanted}"
    return ""


def _readable(found: tuple[str, str], wanted: str) -> bool:
    physical, annotation = found
    match wanted:
        case "string":
            return physical == "binary" and annotation in ("", "STRING", "UTF8")
        case "timestamp":
            return physical == "int96" or (physical == "int64" and annotation.startswith("TIMESTAMP"))
        case _:
            return physical in ("int32", "int64") and (
                annotation == "" or (annotation.startswith("INT") and annotation.endswith("true)"))
            )


def _time_unit(types: dict[str, tuple[str, str]], columns: dict[str, str]) -> str:
    times = [types[name][1] for name, kind in columns.items() if kind == "timestamp"]
    return NANOSECONDS if any("NANOS" in annotation for annotation in times) else MICROSECONDS


def read_files(
    spark: SparkSession, listing: Listing, columns: dict[str, str], *, name_files: bool = False
) -> DataFrame:
    """The rows of the files, with `date` (text, from the folder) and, if `name_files`, `file`; never a guessed schema.

    A frame that had `file` once is slower even where it is dropped: Spark then numbers the rows of each file.
    """
    frames = [
        _read(spark, listing.root, [file.path for file in files], columns, unit, name_files)
        for unit in (MICROSECONDS, NANOSECONDS)
        if (files := [file for file in listing.files if file.time_unit == unit])
    ]
    if not frames:
        return nothing(spark, ddl(columns) + (", file string" if name_files else ""))
    return together(frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1]), listing.rows)


def _read(
    spark: SparkSession, root: str, paths: list[str], columns: dict[str, str], unit: str, name_files: bool
) -> DataFrame:
    as_stored = {
        name: "long" if kind == "timestamp" and unit == NANOSECONDS else kind for name, kind in columns.items()
    }
    # Spark reads times in nanoseconds only as integers, and only if configured.
    spark.conf.set("spark.sql.legacy.parquet.nanosAsLong", "true")
    frame = spark.read.schema(ddl(as_stored)).option("basePath", root).parquet(*paths)
    selected: list[Column] = [
        F.timestamp_micros(F.expr(f"{name} div 1000")).alias(name) if as_stored[name] != kind else F.col(name)
        for name, kind in columns.items()
    ]
    named = [F.col("_metadata.file_path").alias("file")] if name_files else []
    return frame.select(*selected, "date", *named)


def is_date(text: str) -> bool:
    """Whether it is a day, written YYYY-MM-DD."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
