"""What is in a folder, and the footers of its Parquet files.

Works on local folders, and through Hadoop's file system on every store with a connector.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from errno import ELOOP
from typing import Any

from pyspark.sql import SparkSession

from pipeline.errors import InputError
from pipeline.usage_place import Settings, connector_of, remedy_for

LINK_TO_ITSELF = -1
"""The size of a link that cannot be followed."""
FILE = "file://"
"""How the address of a local path begins, where Hadoop may have another default."""
DENIED = ("Permission denied", "AccessControlException", "AccessDenied")
"""What is in an error of Hadoop or Java where the user of the job may not read a file."""


@dataclass(frozen=True, slots=True)
class Child:
    """A file or folder. `size`: bytes; `modified_ms`: milliseconds since 1970."""

    path: str
    name: str
    is_folder: bool
    size: int
    modified_ms: int


def is_hidden(child: Child) -> bool:
    """Whether it is a temporary upload or a checksum: these begin with _ or . by convention."""
    return child.name.startswith(("_", "."))


def children(spark: SparkSession, path: str) -> list[Child]:
    """The direct children of a folder, by name; none if the folder does not exist. Raises InputError."""
    try:
        found = _local(path.removeprefix(FILE), path) if _is_local(spark, path) else _stored(spark, path)
    except Exception as error:  # py4j wraps errors of the store's connector
        raise InputError(f"The folder {path} cannot be read: {_cause(error)}.") from error
    return sorted(found, key=lambda child: child.name)


def reach(spark: SparkSession, address: str, settings: Settings) -> None:
    """Give the session what Hadoop needs for this address. Raises InputError if Spark has no connector for it.

    At run time, because settings of a session that is built are arguments of its JVM, which other users can read.
    """
    connector = connector_of(address)
    configuration: Any = spark._jsc.hadoopConfiguration()
    for name, value in settings.items():
        configuration.set(name, value)
    if not connector:
        return
    scheme = address.partition("://")[0]
    jvm: Any = spark._jvm
    try:
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, configuration)
    except Exception as error:  # py4j wraps what Hadoop says of a class that is missing
        raise InputError(f"Spark cannot read {scheme}://… without {connector}. {remedy_for(connector)}") from error


def _is_local(spark: SparkSession, path: str) -> bool:
    """Whether it is a path of this machine, and not of a file system that Hadoop is configured to use."""
    if path.startswith(FILE):
        return True
    return "://" not in path and spark._jsc.hadoopConfiguration().get("fs.defaultFS", "file:").startswith("file:")


def _local(folder: str, path: str) -> list[Child]:
    """The same as `_stored`, without a call of the JVM for each file. `path`: as it was given, perhaps as a URL."""
    try:
        with os.scandir(folder) as entries:
            return [child for entry in entries if (child := _child(entry, path)) is not None]
    except FileNotFoundError:
        return []


def _child(entry: os.DirEntry[str], path: str) -> Child | None:
    """The entry, or None if it was deleted since its name was read, by the compaction for example."""
    try:
        found = entry.stat()
        place, modified_ms = os.path.join(path, entry.name), found.st_mtime_ns // 1_000_000
        return Child(place, entry.name, entry.is_dir(), found.st_size, modified_ms)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno != ELOOP:
            raise
        return Child(os.path.join(path, entry.name), entry.name, is_folder=False, size=LINK_TO_ITSELF, modified_ms=0)


def _stored(spark: SparkSession, path: str) -> list[Child]:
    jvm: Any = spark._jvm
    where = jvm.org.apache.hadoop.fs.Path(path)
    system = where.getFileSystem(spark._jsc.hadoopConfiguration())
    if not system.exists(where):
        return []
    return [
        Child(place.toString(), place.getName(), status.isDirectory(), status.getLen(), status.getModificationTime())
        for status in system.listStatus(where)
        if (place := status.getPath()) is not None
    ]


def _cause(error: Exception) -> str:
    java = getattr(error, "java_exception", None)
    if java is None and isinstance(error, OSError):
        return f"{error.strerror or error}"
    return str(java.getMessage() if java is not None else error).splitlines()[0].rstrip(".")


@dataclass(frozen=True, slots=True)
class Footer:
    """The `schema` of a file and the `storage` of its columns, as Parquet prints them, the number of rows, the least
    and greatest value of one column, if known, and a `note` of its writer, if there is one.
    """

    schema: str
    rows: int
    storage: str
    bounds: tuple[int, int] | None
    note: str | None


@dataclass(frozen=True, slots=True)
class Footers:
    """Reads footers. The names in the JVM are looked up and the options are made once: for each file anew, they take
    twenty times what the footer takes.
    """

    configuration: Any
    options: Any
    input_file: Any
    reader: Any
    path: Any

    @classmethod
    def of(cls, spark: SparkSession) -> Footers:
        jvm: Any = spark._jvm
        parquet, configuration = jvm.org.apache.parquet, spark._jsc.hadoopConfiguration()
        options = parquet.HadoopReadOptions.builder(configuration).build()
        tools = parquet.hadoop.util.HadoopInputFile, parquet.hadoop.ParquetFileReader, jvm.org.apache.hadoop.fs.Path
        return cls(configuration, options, *tools)

    def is_gone(self, path: str) -> bool:
        """Whether the file is no longer there."""
        place = self.path(path)
        return not place.getFileSystem(self.configuration).exists(place)

    def read(self, path: str, column: str, note: str) -> Footer:
        """The footer, with the bounds of this column and the note of this name."""
        source = self.input_file.fromPath(self.path(path), self.configuration)
        reader = self.reader.open(source, self.options)
        try:
            footer = reader.getFooter()
            about, blocks = footer.getFileMetaData(), footer.getBlocks()
            schema = about.getSchema()
            return Footer(
                schema=schema.toString(),
                rows=reader.getRecordCount(),
                storage=blocks.toString(),
                bounds=_bounds(schema, blocks, column),
                note=about.getKeyValueMetaData().get(note),
            )
        finally:
            reader.close()


def _bounds(schema: Any, blocks: Any, column: str) -> tuple[int, int] | None:
    """The least and greatest value of an integer column by the footer; None if there is more than one row group."""
    if blocks.size() != 1 or not schema.containsField(column):
        return None
    stored = blocks.get(0).getColumns().get(schema.getFieldIndex(column))
    if stored.getPath().toDotString() != column:  # an earlier column is nested, so that this is another one
        return None
    found = stored.getStatistics()
    least, greatest = found.genericGetMin(), found.genericGetMax()
    is_known = found.hasNonNullValue() and isinstance(least, int) and isinstance(greatest, int)
    return (least, greatest) if is_known else None
