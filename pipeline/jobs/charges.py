"""`python -m pipeline.jobs.charges`: a month's charges, from usage files to a result file.

A process of its own, so that the web never waits for a JVM; also what `spark-submit` is given on a cluster.
Progress goes to standard output as JSON lines, an error to standard error as one sentence (exit status 2).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pipeline.charges import Request, Session, compute_readable, damaged_file, utc_now
from pipeline.errors import PipelineError
from pipeline.jobs.prices import SAMPLE_PRICES
from pipeline.months import Month
from pipeline.prices import read_prices
from pipeline.progress import Progress, end_with_stdin, failed, to_stdout
from pipeline.results import write_results
from pipeline.schemas import ALLOCATIONS
from pipeline.tariffs import read_records, read_tariffs
from pipeline.usage.folder import UsageFolder
from pipeline.usage.place import missing_connector, place_of, remedy_for
from pipeline.usage.table import DayTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_HOURS = 10_000
KNOWN = {
    "JAVA_GATEWAY_EXITED": "Java ended before Spark had started: check SPARK_MASTER, SPARK_DRIVER_MEMORY and the other "
    "SPARK_ variables, and JAVA_HOME.",
    "stopped SparkContext": "The cluster ended the session, or did not answer: check SPARK_MASTER, and that its "
    "workers can reach the driver (SPARK_DRIVER_HOST).",
}
"""What Spark says, by a part of it, where its first line does not say what to do."""


def parser() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="python -m pipeline.jobs.charges", description="Compute a month's charges.")
    options.add_argument("--month", required=True, help="YYYY-MM")
    options.add_argument("--usage", required=True, help="folder or URL that holds usage/ and connections/")
    options.add_argument("--result", required=True, type=Path, help="the file to write")
    options.add_argument("--prices", type=Path, default=SAMPLE_PRICES, help="answer of the Retail Prices API")
    options.add_argument("--region", help="armRegionName, if the price list has several")
    options.add_argument("--allocation", choices=ALLOCATIONS, default=ALLOCATIONS[0])
    options.add_argument("--hours-in-month", type=int, help="divisor of the connections (default: the calendar's)")
    options.add_argument("--outages", type=Path, help="outages, JSON lines: what they cost is part of the result")
    options.add_argument("--inventory", type=Path, help="the entities, JSON lines with pair and entity")
    options.add_argument("--namespaces", type=Path, help="tiers and crossings, JSON lines (default: all Standard)")
    options.add_argument("--depths", type=Path, help="samples of the backlogs, as JSON lines, for rollups")
    options.add_argument("--table", type=Path, help="folder in which the sums of each day are kept (default: none are)")
    options.add_argument("--may-be-empty", action="store_true", help="accept a folder without usage/: nothing came yet")
    options.add_argument("--until", type=datetime.fromisoformat, help="first minute left to the next run (ISO 8601)")
    options.add_argument("--end-with-stdin", action="store_true", help="end when standard input is closed")
    options.add_argument("--max-quarantined", type=_share, default=Fraction(5, 100), help="share of rows or files")
    return options


def _share(text: str) -> Fraction:
    try:
        share = Fraction(text)
    except ZeroDivisionError:
        raise ValueError(text) from None
    if not 0 <= share <= 1:  # 5 for 5 % would publish any month
        raise ValueError(text)
    return share


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the job; returns the exit status."""
    options = parser().parse_args(arguments)
    try:
        if options.end_with_stdin:
            end_with_stdin()
        run(options)
    except PipelineError as error:
        failed(str(error))
        return 2
    except Exception as error:
        if (reported := spark_error(error)) is None:
            raise
        failed(reported)
        return 2
    return 0


def run(options: argparse.Namespace, progress: Progress = to_stdout) -> None:
    """Compute what the options say, and write the result file. Raises PipelineError."""
    month, now = Month.parse(options.month), utc_now()
    if options.result.is_dir() or not options.result.absolute().parent.is_dir():
        raise PipelineError(f"--result {options.result} is a folder, or its folder does not exist: name a file.")
    if options.hours_in_month is not None and options.hours_in_month <= 0:
        raise PipelineError("--hours-in-month must be more than 0.")
    if options.hours_in_month is not None and options.hours_in_month > MOST_HOURS:
        raise PipelineError(f"--hours-in-month must be at most {MOST_HOURS}.")
    _require_connector(options.usage)
    usage = UsageFolder.of(options.usage)
    with TemporaryDirectory(prefix="day-sums-") as nowhere, _sessions(progress) as session:
        request = Request(
            month=month,
            usage=usage,
            table=DayTable.of(options.table or Path(nowhere), usage.url),
            prices=read_prices(options.prices, month, options.region),
            allocation=options.allocation,
            hours_in_month=options.hours_in_month,
            max_quarantined=options.max_quarantined,
            outages=options.outages,
            inventory=_inventory(options.inventory),
            tariffs=read_tariffs(options.namespaces),
            depths=options.depths,
            may_be_empty=options.may_be_empty,
            until=options.until,
        )
        outcome = compute_readable(session, request, now, progress)
    write_results(options.result, _description(options, request, now), request.prices, outcome)


def _require_connector(usage: str) -> None:
    """Raises PipelineError for an object store that Spark cannot read; what a cluster has, its submitter knows."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ and (connector := missing_connector(usage)):
        scheme = place_of(usage).address.partition("://")[0]
        raise PipelineError(f"Spark cannot read {scheme}://… without {connector}. {remedy_for(connector)}")


@contextmanager
def _sessions(progress: Progress) -> Iterator[Session]:
    """What gives the session of this job, which is started when it is first asked for, and ends with the block."""
    started: list[SparkSession] = []

    def session(rows: int) -> SparkSession:
        if not started:
            from pipeline.usage.spark import build_session, quick  # takes longer than to see that nothing has changed

            progress("starting Spark", 0.0, 0)
            started.append(build_session("charges", **quick(rows)))
        return started[0]

    try:
        yield session
    finally:
        for each in started:
            each.stop()


def _inventory(path: Path | None) -> tuple[tuple[str, str], ...]:
    if path is None:
        return ()
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise PipelineError(f"{path} cannot be read: {error.strerror}.") from None
    entries = (json.loads(line) for line in text.splitlines())
    return tuple((entry["pair"], entry["entity"]) for entry in entries)


def _description(options: argparse.Namespace, request: Request, now: datetime) -> dict[str, Any]:
    return {
        "month": str(request.month),
        "until": (request.until or now).isoformat(),
        "allocation": request.allocation,
        "hours_in_month": request.hours_in_month or request.month.hours,
        "sample_prices": request.prices.is_sample,
        "tiers": {known.name: known.tier for known in request.tariffs.namespaces.values()},
        "namespaces": read_records(options.namespaces),
    }


def spark_error(error: Exception) -> str | None:
    """Spark's own complaint in one sentence; None where the error is not Spark's."""
    if not type(error).__module__.startswith(("pyspark", "py4j")):
        return None
    java = getattr(error, "java_exception", None)
    text = java.getMessage() if java is not None else str(error)
    if damaged := damaged_file(error):
        return f"The file {damaged} is damaged: replace it with a good copy, or remove it."
    for part, sentence in KNOWN.items():
        if part in str(text):
            return sentence
    return f"Spark could not finish: {str(text).splitlines()[0].rstrip('.')}."


if __name__ == "__main__":
    sys.exit(main())
