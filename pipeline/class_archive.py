"""The JVM's archive of the classes that Spark loads: with it, a small month takes a third less processor time.

`python -m pipeline.jobs.class_archive` makes it, at set-up: of a run of twenty seconds, a third is the loading and the
verification of classes. The JVM ignores an archive that was made by another Java or of other JARs, but crashes on a
truncated one. Therefore its name has its size, and it is used only if it has that.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDER = "SPARK_CLASS_ARCHIVE_DIR"
NAME = re.compile(r"spark-(\d+)\.jsa")
OPTION = "-XX:ArchiveClassesAtExit"  # a JVM that makes an archive uses none
SILENT = "-Xlog:cds=off -Xlog:cds+dynamic=off"  # the JVM would warn among the lines of the job


def folder() -> Path:
    """Where the archive is: beside this Python, unless the environment says otherwise."""
    return Path(os.environ.get(FOLDER) or Path(sys.prefix, "java-classes"))


def using() -> str:
    """The options of a JVM that uses the archive, if there is one; else an empty text."""
    found = next((path for path, size in _archives() if path.stat().st_size == size), None)
    return f"-XX:SharedArchiveFile={found} {SILENT}" if found and " " not in str(found) else ""


def making(part: Path) -> str:
    """The options of a JVM that writes its classes to this file when it ends."""
    return f"{OPTION}={part} {SILENT}"


def publish(part: Path) -> Path:
    """Give the complete file its name, in place of the archives that were there before."""
    with part.open("rb") as written:
        os.fsync(written.fileno())
    place = part.with_name(f"spark-{part.stat().st_size}.jsa")
    part.replace(place)
    for other, _ in _archives():
        if other != place:
            other.unlink(missing_ok=True)
    return place


def _archives() -> Iterator[tuple[Path, int]]:
    """The archives, each with the size that it should have."""
    for path in sorted(folder().glob("*.jsa")):
        if named := NAME.fullmatch(path.name):
            yield path, int(named[1])
