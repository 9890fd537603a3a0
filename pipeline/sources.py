"""The files of a folder, looked at one by one before anything is computed (docs/costs.md, "Bad input").

Works on local paths and on every store Hadoop has a connector for: both are reached through Hadoop's file system.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from pipeline.errors import InputError
from pipeline.months import Month
from pipeline.schemas import ddl

FIELD = re.compile(r"^(?:required|optional|repeated) (\w+)(?:\(\d+\))? (\w+)(?: \((.+?)\))?(?: = \d+)?;$")
MICROSECONDS, NANOSECONDS = "us", "ns"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that can be read: its day, its rows by its own footer, and how it writes time."""

    path: str
    day: str
    rows: int
    time_unit: str
    modified_ms: int = 0


@dataclass(frozen=True, slots=True)
class RejectedFile:
    """A file that is left out, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Listing:
    """What a folder holds for one month."""

    root: str
    files: tuple[SourceFile, ...]
    rejected: tuple[RejectedFile, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


def list_month(spark: SparkSession, root: str, month: Month, columns: dict[str, str]) -> Listing:
    """The month's files under root/date=YYYY-MM-DD/, each with its footer read; a missing folder is an empty one."""
    files: list[SourceFile] = []
    rejected: list[RejectedFile] = []
    days = {day.isoformat() for day in month.dates}
    for folder in _children(spark, root):
        name = folder.getPath().getName()
        if name.startswith(("_", ".")):
            continue
        day = name.removeprefix("date=")
        if not folder.isDirectory() or not name.startswith("date=") or not _is_date(day):
            rejected.append(RejectedFile(f"{root}/{name}", "is not a folder named date=YYYY-MM-DD"))
        elif day in days:
            for found in _day_files(spark, folder, day, columns):
                (files if isinstance(found, SourceFile) else rejected).append(found)  # type: ignore[arg-type]
    return Listing(root, tuple(files), tuple(rejected))


def _day_files(
    spark: SparkSession, folder: Any, day: str, columns: dict[str, str]
) -> Iterator[SourceFile | RejectedFile]:
    for status in _children(spark, folder.getPath().toString()):
        path = status.getPath()
        if path.getName().startswith(("_", ".")):
            continue  # temporary uploads and checksums, by convention of the format
        yield _preflight(spark, status, day, columns)


def _preflight(spark: SparkSession, status: Any, day: str, columns: dict[str, str]) -> SourceFile | RejectedFile:
    path = status.getPath().toString()
    if status.isDirectory():
        return RejectedFile(path, "is a folder inside a day")
    if status.getLen() == 0:
        return RejectedFile(path, "is empty (0 bytes)")
    try:
        schema, rows = _footer(spark, status)
    except Exception:  # whatever the reader dislikes: the file is no usable Parquet
        return RejectedFile(path, "is not Parquet, or is truncated")
    types = parse_schema(schema)
    if reason := _mismatch(types, columns):
        return RejectedFile(path, reason)
    return SourceFile(path, day, rows, _time_unit(types, columns), status.getModificationTime())


def _footer(spark: SparkSession, status: Any) -> tuple[str, int]:
    """The file's schema as Parquet prints it, and its number of rows."""
    jvm: Any = spark._jvm
    hadoop = spark._jsc.hadoopConfiguration()
    source = jvm.org.apache.parquet.hadoop.util.HadoopInputFile.fromStatus(status, hadoop)
    reader = jvm.org.apache.parquet.hadoop.ParquetFileReader.open(source)
    try:
        return reader.getFooter().getFileMetaData().getSchema().toString(), reader.getRecordCount()
    finally:
        reader.close()


def parse_schema(text: str) -> dict[str, tuple[str, str]]:
    """Column name → (physical type, annotation) of a Parquet schema in its printed form."""
    matches = (FIELD.match(line.strip()) for line in text.splitlines())
    return {match[2]: (match[1], match[3] or "") for match in matches if match}


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
    # Spark reads times in nanoseconds only as plain numbers, and only if told so.
    spark.conf.set("spark.sql.legacy.parquet.nanosAsLong", "true")
    frame = spark.read.schema(ddl(as_stored)).option("basePath", root).parquet(*paths)
    selected: list[Column] = [
        F.timestamp_micros(F.expr(f"{name} div 1000")).alias(name) if as_stored[name] != kind else F.col(name)
        for name, kind in columns.items()
    ]
    return frame.select(*selected, "date", F.col("_metadata.file_path").alias("file"))


def _children(spark: SparkSession, path: str) -> Iterable[Any]:
    """What is directly inside a folder, by name; nothing where the folder does not exist."""
    jvm: Any = spark._jvm
    where = jvm.org.apache.hadoop.fs.Path(path)
    try:
        system = where.getFileSystem(spark._jsc.hadoopConfiguration())
        if not system.exists(where):
            return []
        return sorted(system.listStatus(where), key=lambda status: str(status.getPath().getName()))
    except Exception as error:  # py4j wraps whatever the store's connector raises
        raise InputError(f"The folder {path} cannot be read: {_cause(error)}.") from error


def _cause(error: Exception) -> str:
    java = getattr(error, "java_exception", None)
    return str(java.getMessage() if java is not None else error).splitlines()[0].rstrip(".")


def _is_date(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
