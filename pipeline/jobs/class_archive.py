"""`python -m pipeline.jobs.class_archive`: makes the archive that Spark starts faster with (`pipeline.class_archive`).

It computes a month of a few made-up rows in each way that there is, so that the classes of all of them are in it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from pipeline import class_archive
from pipeline.charges import compute_readable
from pipeline.errors import PipelineError
from pipeline.jobs import charges
from pipeline.progress import failed, silent
from pipeline.schemas import KINDS
from pipeline.spark import FOR_LITTLE_DATA, INTERPRETED, OF_LOCAL_FILES, build_session

MONTH = "2026-10"
ROWS = 2_000
MOST_S = 600
OF_THE_JVM = "spark.driver.extraJavaOptions"


def main(arguments: Sequence[str] | None = None) -> int:
    """Makes the archive; returns the exit status."""
    argparse.ArgumentParser(
        prog="python -m pipeline.jobs.class_archive",
        description="Make the archive of Java classes with which Spark starts faster.",
    ).parse_args(arguments)
    try:
        made = make()
    except PipelineError as error:
        failed(str(error))
        return 2
    print(json.dumps({"archive": str(made), "bytes": made.stat().st_size}))
    return 0


def make() -> Path:
    """Makes the archive and returns its place. Raises PipelineError."""
    folder = class_archive.folder()
    part = folder / f"{os.getpid()}.part"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        options = f"{FOR_LITTLE_DATA[OF_THE_JVM]} {class_archive.making(part)}"
        settings = OF_LOCAL_FILES | FOR_LITTLE_DATA | INTERPRETED | {OF_THE_JVM: options}
        session = build_session("class archive", **settings)
        with TemporaryDirectory() as name:
            practise(session, Path(name))
        if (status := end(session)) or not part.exists():
            raise PipelineError(f"Java did not make an archive of its classes (status {status}): Spark runs without.")
        return class_archive.publish(part)
    except OSError as error:
        raise PipelineError(f"No archive of classes can be written to {folder}: {error.strerror}.") from error
    finally:
        with suppress(OSError):
            part.unlink()


def practise(session: SparkSession, usage: Path) -> None:
    """Computes a month: all of it, then what is new, then what changed of it."""
    _write(session, usage, "zstd", seq=1)
    for options in ([], ["--incremental"]):
        _compute(session, usage, options)
    _write(session, usage, "snappy", seq=2)
    _compute(session, usage, ["--incremental"])


def _compute(session: SparkSession, usage: Path, options: Sequence[str]) -> None:
    given = ["--month", MONTH, "--usage", str(usage), "--result", str(usage / "result.jsonl"), *options]
    charges.run(
        charges.parser().parse_args(given),
        lambda request, now, progress: compute_readable(session, request, now, progress),
        silent,
    )


def _write(session: SparkSession, usage: Path, compression: str, *, seq: int) -> None:
    """Records of one day in which tiers begin, some of them twice, and peaks of connections."""
    kinds = ", ".join(f"'{kind}'" for kind in KINDS)
    rows = session.range(ROWS).selectExpr(
        f"concat('contoso/host/', id % {ROWS - 10}) as record_id",
        f"timestamp '{MONTH}-05' + make_interval(0, 0, 0, 0, 0, cast(id % {ROWS - 10} % 1440 as int)) as minute",
        "'scope' as scope", "'contoso' as pair", "'contoso' as namespace", "concat('orders/', id % 7) as entity",
        f"array({kinds})[id % {len(KINDS)}] as kind", "'host' as reporter", f"{seq}L as seq",
        "100000L as operations", "0L as messages", "100000L as bytes", "100000L as billing_units",
    )  # fmt: skip
    peaks = session.range(24).selectExpr(
        f"timestamp '{MONTH}-05' + make_interval(0, 0, 0, 0, cast(id as int)) as hour",
        "'scope' as scope", "'contoso' as namespace", "7L as peak",
    )  # fmt: skip
    for name, frame in (("usage", rows), ("connections", peaks)):
        folder = str(usage / name / f"date={MONTH}-05")
        frame.coalesce(1).write.mode("append").option("compression", compression).parquet(folder)


def end(session: SparkSession) -> int:
    """Ends Spark and its JVM, which writes the archive then; returns the status of the JVM."""
    gateway: Any = SparkContext._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    return int(gateway.proc.wait(MOST_S))


if __name__ == "__main__":
    sys.exit(main())
