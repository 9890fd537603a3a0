"""Small text files wherever Hadoop's file system reaches: a local folder or an object store."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession


def read_text(spark: SparkSession, path: str) -> str | None:
    """The file's text; None where there is none."""
    system, where = _open(spark, path)
    if not system.exists(where):
        return None
    stream = system.open(where)
    try:
        return bytes(stream.readAllBytes()).decode()
    finally:
        stream.close()


def read_notes(spark: SparkSession, path: str) -> dict[str, Any]:
    """The JSON object in the file; an empty one where there is none to be read: what is noted can be made again."""
    try:
        notes = json.loads(read_text(spark, path) or "{}")
    except Exception:  # half written by a run that was killed, or not what its checksum says since the power failed
        return {}
    return notes if isinstance(notes, dict) else {}


def write_text(spark: SparkSession, path: str, text: str) -> None:
    """Puts the text in the file's place; the folder is made."""
    system, where = _open(spark, path)
    stream = system.create(where, True)
    try:
        stream.write(bytearray(text.encode()))
    finally:
        stream.close()


def delete(spark: SparkSession, path: str) -> None:
    """Removes the file, or the folder with all that is in it; one that is not there is no error."""
    system, where = _open(spark, path)
    system.delete(where, True)


def _open(spark: SparkSession, path: str) -> tuple[Any, Any]:
    jvm: Any = spark._jvm
    where = jvm.org.apache.hadoop.fs.Path(path)
    return where.getFileSystem(spark._jsc.hadoopConfiguration()), where
