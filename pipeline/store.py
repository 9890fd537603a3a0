"""Small text files on any file system of Hadoop: a local folder or an object store."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession


def read_text(spark: SparkSession, path: str) -> str | None:
    """The text of the file; None if it does not exist."""
    system, where = _open(spark, path)
    if not system.exists(where):
        return None
    stream = system.open(where)
    try:
        return bytes(stream.readAllBytes()).decode()
    finally:
        stream.close()


def read_notes(spark: SparkSession, path: str) -> dict[str, Any]:
    """The JSON object in the file; empty if it is missing or unreadable, because notes can be created again."""
    try:
        notes = json.loads(read_text(spark, path) or "{}")
    except Exception:  # half written by a run that was killed, or not what its checksum says since the power failed
        return {}
    return notes if isinstance(notes, dict) else {}


def write_text(spark: SparkSession, path: str, text: str) -> None:
    """Replace the file by this text; the folder is created."""
    system, where = _open(spark, path)
    stream = system.create(where, True)
    try:
        stream.write(bytearray(text.encode()))
    finally:
        stream.close()


def delete(spark: SparkSession, path: str) -> None:
    """Delete the file, or the folder with its content; a missing one is no error."""
    system, where = _open(spark, path)
    system.delete(where, True)


def _open(spark: SparkSession, path: str) -> tuple[Any, Any]:
    jvm: Any = spark._jvm
    where = jvm.org.apache.hadoop.fs.Path(path)
    return where.getFileSystem(spark._jsc.hadoopConfiguration()), where
