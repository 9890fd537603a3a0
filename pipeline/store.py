"""Small text files wherever Hadoop's file system reaches: a local folder or an object store."""

from __future__ import annotations

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


def write_text(spark: SparkSession, path: str, text: str) -> None:
    """Puts the text in the file's place; the folder is made."""
    system, where = _open(spark, path)
    stream = system.create(where, True)
    try:
        stream.write(bytearray(text.encode()))
    finally:
        stream.close()


def _open(spark: SparkSession, path: str) -> tuple[Any, Any]:
    jvm: Any = spark._jvm
    where = jvm.org.apache.hadoop.fs.Path(path)
    return where.getFileSystem(spark._jsc.hadoopConfiguration()), where
