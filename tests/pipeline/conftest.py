"""One Spark session for the whole run, and usage files as the collector writes them."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pipeline.errors import PipelineError
from pipeline.java import require_java
from pipeline.usage.spark import build_session

FOR_A_HANDFUL_OF_ROWS = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
TYPES = {"timestamp": pa.timestamp("us", tz="UTC"), "string": pa.string(), "long": pa.int64()}
Write = Callable[..., Path]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    try:
        require_java()
    except PipelineError as error:
        (pytest.fail if os.environ.get("REQUIRE_JAVA") == "1" else pytest.skip)(str(error))
    logging.getLogger("py4j").setLevel(logging.WARNING)  # it would say good-bye to a stream that is closed by then
    session = build_session("tests", **FOR_A_HANDFUL_OF_ROWS)
    yield session
    session.stop()


@pytest.fixture
def usage(tmp_path: Path) -> Path:
    """A USAGE_DIR without anything in it."""
    folder = tmp_path / "usage-dir"
    folder.mkdir()
    return folder


def write_table(path: Path, rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> Path:
    """A Parquet file with exactly these columns."""
    schema = pa.schema([(name, TYPES[kind]) for name, kind in columns.items()])
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], schema), path)
    return path


@pytest.fixture
def write(usage: Path) -> Write:
    """Writes rows into files by the day of their time column, one file per call and day."""
    numbers = count()

    def write_rows(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str], folder: str = "usage") -> None:
        days: dict[str, list[Mapping[str, Any]]] = {}
        time = "minute" if "minute" in columns else "hour"
        for row in rows:
            moment = row[time]
            assert isinstance(moment, datetime)
            days.setdefault(moment.date().isoformat(), []).append(row)
        for day, its_rows in days.items():
            write_table(usage / folder / f"date={day}" / f"{next(numbers)}.parquet", its_rows, columns)

    return write_rows  # type: ignore[return-value]
