"""The files of a folder, checked one by one before anything is computed (docs/costs.md, "Bad input").

Works on local paths and on every store with a Hadoop connector, through Hadoop's file system.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline.errors import InputError
from pipeline.months import Month
from pipeline.schemas import KEPT_SHAPE, ddl

FIELD = re.compile(r"^( +)(?:required|optional|repeated) (\w+)(?:\(\d+\))? (\w+)(?: \((.+?)\))?(?: = \d+)?(?:;| \{)$")
CODEC = re.compile(r"ColumnMetaData\{(\w+) \[(\w+)\]")
CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD", "LZ4", "LZ4_RAW")
PATTERN = "{}[]*?\\:"
"""Characters by which Spark and Hadoop take a name for a pattern or an address."""
MICROSECONDS, NANOSECONDS = "us", "ns"
NOTHING_MORE: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A readable file: its day, its number of rows by its footer, and its format of times."""

    path: str
    day: str
    rows: int
    time_unit: str


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


def list_month(
    spark: SparkSession,
    root: str,
    month: Month,
    columns: dict[str, str],
    known: Mapping[str, object] | None = None,
    only: Set[str] | None = None,
    optional: Mapping[str, str] = NOTHING_MORE,
    left_out: Mapping[str, str] = NOTHING_MORE,
) -> Listing:
    """The month's files under root/date=YYYY-MM-DD/, each with its footer read; a missing folder is an empty one.

    Days with a `known` fingerprint are not looked into; `only` these days, where given. `optional`: columns that a file
    may lack. `left_out`: files, named as `place_of` does, that turned out to be unreadable, and why.
    """
    files: list[SourceFile] = []
    rejected: list[RejectedFile] = []
    fingerprints: dict[str, str] = {}
    marks: dict[str, dict[str, str]] = {}
    for folder in _children(spark, root):
        name = folder.getPath().getName()
        day = name.removeprefix("date=")
        if name.startswith(("_", ".")):
            continue
        if not folder.isDirectory() or not name.startswith("date=") or not _is_date(day):
            rejected.append(RejectedFile(f"{root}/{name}", "is not a folder named date=YYYY-MM-DD"))
        elif day.startswith(f"{month}-") and (only is None or day in only):
            inside = _visible(spark, folder)
            marks[day] = {str(file.getPath().getName()): _mark(file) for file in inside}
            fingerprints[day] = _digest(marks[day])
            if known is None or known.get(day) != fingerprints[day]:
                for status in inside:
                    reason = left_out.get(place_of(status.getPath().toString()))
                    found = (
                        RejectedFile(status.getPath().toString(), reason, day)
                        if reason
                        else _preflight(spark, status, day, columns, optional)
                    )
                    files.append(found) if isinstance(found, SourceFile) else rejected.append(found)
    return Listing(root, tuple(files), tuple(rejected), fingerprints, marks)


def _visible(spark: SparkSession, folder: Any) -> list[Any]:
    """The content of a day's folder, without temporary uploads and checksums, which begin with _ or . by convention."""
    found = _children(spark, folder.getPath().toString())
    return [status for status in found if not status.getPath().getName().startswith(("_", "."))]


def _mark(file: Any) -> str:
    return _digest((file.getPath().getName(), file.getLen(), file.getModificationTime()))


def _digest(facts: object) -> str:
    return hashlib.sha256(repr((KEPT_SHAPE, facts)).encode()).hexdigest()


def _preflight(
    spark: SparkSession, status: Any, day: str, columns: dict[str, str], optional: Mapping[str, str]
) -> SourceFile | RejectedFile:
    path = status.getPath().toString()
    if status.isDirectory():
        return RejectedFile(path, "is a folder inside a day", day)
    if status.getLen() == 0:
        return RejectedFile(path, "is empty (0 bytes)", day)
    if odd := sorted(set(PATTERN) & set(status.getPath().getName())):
        return RejectedFile(path, f"has {' '.join(odd)} in its name: rename it", day)
    try:
        schema, rows, codecs = _footer(spark, status)
    except Exception:  # any error of the reader: the file is not usable Parquet
        return RejectedFile(path, "is not Parquet, or is truncated", day)
    types = parse_schema(schema)
    wanted = columns | {name: kind for name, kind in optional.items() if name in types}
    if reason := _mismatch(types, wanted) or _ambiguous(schema, wanted) or _compressed(codecs, wanted):
        return RejectedFile(path, reason, day)
    return SourceFile(path, day, rows, _time_unit(types, columns))


def place_of(path: str) -> str:
    """The path from the folder of the kind of records on: it is the same in a listing and in an error of Spark."""
    return "/".join(path.split("/")[-3:])


def _footer(spark: SparkSession, status: Any) -> tuple[str, int, str]:
    """The file's schema and its columns' storage, both as Parquet prints them, and its number of rows."""
    jvm: Any = spark._jvm
    hadoop = spark._jsc.hadoopConfiguration()
    source = jvm.org.apache.parquet.hadoop.util.HadoopInputFile.fromStatus(status, hadoop)
    reader = jvm.org.apache.parquet.hadoop.ParquetFileReader.open(source)
    try:
        footer = reader.getFooter()
        return footer.getFileMetaData().getSchema().toString(), reader.getRecordCount(), footer.getBlocks().toString()
    finally:
        reader.close()


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


def read_files(spark: SparkSession, listing: Listing, columns: dict[str, str]) -> DataFrame:
    """The rows of the files, with `date` (text, from the folder) and `file`; never a guessed schema."""
    frames = [
        _read(spark, listing.root, [file.path for file in files], columns, unit)
        for unit in (MICROSECONDS, NANOSECONDS)
        if (files := [file for file in listing.files if file.time_unit == unit])
    ]
    if not frames:
        return spark.createDataFrame([], ddl(columns) + ", file string")
    return frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])


def _read(spark: SparkSession, root: str, paths: list[str], columns: dict[str, str], unit: str) -> DataFrame:
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
    return frame.select(*selected, "date", F.col("_metadata.file_path").alias("file"))


def _children(spark: SparkSession, path: str) -> Iterable[Any]:
    """The direct children of a folder, by name; none if the folder does not exist."""
    jvm: Any = spark._jvm
    where = jvm.org.apache.hadoop.fs.Path(path)
    try:
        system = where.getFileSystem(spark._jsc.hadoopConfiguration())
        if not system.exists(where):
            return []
        return sorted(system.listStatus(where), key=lambda status: str(status.getPath().getName()))
    except Exception as error:  # py4j wraps errors of the store's connector
        raise InputError(f"The folder {path} cannot be read: {_cause(error)}.") from error


def _cause(error: Exception) -> str:
    java = getattr(error, "java_exception", None)
    return str(java.getMessage() if java is not None else error).splitlines()[0].rstrip(".")


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
