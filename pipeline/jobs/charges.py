"""`python -m pipeline.jobs.charges`: a month's charges, from usage files to a result file.

A process of its own, so that the web never waits for a JVM; also what `spark-submit` is given on a cluster.
Progress goes to standard output as JSON lines, an error to standard error as one sentence (exit status 2).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from pipeline.charges import Request, compute_readable, damaged_file, utc_now
from pipeline.errors import PipelineError
from pipeline.jobs.prices import SAMPLE_PRICES
from pipeline.months import Month
from pipeline.prices import PriceList, read_prices
from pipeline.progress import Progress, end_with_stdin, failed, to_stdout
from pipeline.results import Outcome, write_results
from pipeline.schemas import ALLOCATIONS
from pipeline.tariffs import read_tariffs
from pipeline.unchanged import Inputs, KeptResult
from pipeline.usage_place import place_of

Compute = Callable[[Request, datetime, Progress], Outcome]
MOST_HOURS = 10_000
KNOWN = {
    "Mkdirs failed to create": "The sums of an incremental run cannot be kept: let the user of the job write to "
    "hourly/ in the folder of the usage, or leave out --incremental.",
    "JAVA_GATEWAY_EXITED": "Java ended before Spark had started: check SPARK_MASTER, SPARK_DRIVER_MEMORY and the other "
    "SPARK_ variables, and JAVA_HOME.",
    "stopped SparkContext": "The cluster ended the session, or did not answer: check SPARK_MASTER, and that its "
    "workers can reach the driver (SPARK_DRIVER_HOST).",
}
"""What Spark says, by a part of it, where its first line does not say what to do."""
DECIDING = ("usage", "region", "allocation", "hours_in_month", "max_quarantined")
"""The options that a result follows from, beside the files."""


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
    options.add_argument("--incremental", action="store_true", help="keep USAGE/hourly/ and sum only changed days")
    options.add_argument("--may-be-empty", action="store_true", help="accept a folder without usage/: nothing came yet")
    options.add_argument("--end-with-stdin", action="store_true", help="end when standard input is closed")
    options.add_argument("--max-quarantined", type=_share, default=Fraction(5, 100), help="share of rows or files")
    return options


def _share(text: str) -> Fraction:
    try:
        return Fraction(text)
    except ZeroDivisionError:
        raise ValueError(text) from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the job; returns the exit status."""
    options = parser().parse_args(arguments)
    try:
        if options.end_with_stdin:
            end_with_stdin()
        run(options, in_its_own_session)
    except PipelineError as error:
        failed(str(error))
        return 2
    except Exception as error:
        if (reported := spark_error(error)) is None:
            raise
        failed(reported)
        return 2
    return 0


def run(options: argparse.Namespace, compute: Compute, progress: Progress = to_stdout) -> None:
    """Compute what the options say, and write the result file. Raises PipelineError."""
    month = Month.parse(options.month)
    if options.result.is_dir() or not options.result.absolute().parent.is_dir():
        raise PipelineError(f"--result {options.result} is a folder, or its folder does not exist: name a file.")
    if options.hours_in_month is not None and options.hours_in_month <= 0:
        raise PipelineError("--hours-in-month must be more than 0.")
    if options.hours_in_month is not None and options.hours_in_month > MOST_HOURS:
        raise PipelineError(f"--hours-in-month must be at most {MOST_HOURS}.")
    place = place_of(options.usage)
    prices = read_prices(options.prices, month, options.region)
    request = Request(
        month=month,
        usage=place.address.rstrip("/"),
        store=place.settings,
        prices=prices,
        allocation=options.allocation,
        hours_in_month=options.hours_in_month,
        max_quarantined=options.max_quarantined,
        incremental=options.incremental,
        outages=str(options.outages or ""),
        inventory=_inventory(options.inventory),
        tariffs=read_tariffs(options.namespaces),
        depths=str(options.depths or ""),
        may_be_empty=options.may_be_empty,
    )
    kept, now = _kept(options, month), utc_now()
    if kept is not None and kept.give(options.result, request.inventory, now):
        progress("nothing has changed since the last run", 1.0, 0)
        return
    progress("starting Spark", 0.0, 0)
    outcome = compute(request, now, progress)
    description = _description(options, month, prices) | {
        "tiers": {n.name: n.tier for n in request.tariffs.namespaces.values()}
    }
    write_results(options.result, description, prices, outcome)
    if kept is not None:
        kept.keep(options.result, now)


def _kept(options: argparse.Namespace, month: Month) -> KeptResult | None:
    """Where an incremental run keeps its result; None for a full run, where the files are in an object store, and where
    one cannot be read, which the run reports.
    """
    if not options.incremental or "://" in place_of(options.usage).address:
        return None
    inputs = Inputs(
        month=month,
        usage=Path(options.usage),
        outages=options.outages,
        files=(options.prices, options.namespaces, options.depths),
        options={name: str(getattr(options, name)) for name in DECIDING},
    )
    try:
        return KeptResult.of(inputs)
    except OSError:
        return None


def in_its_own_session(request: Request, now: datetime, progress: Progress) -> Outcome:
    """What `compute_readable` returns, in a Spark session that ends with it."""
    # Loaded here, so that an invalid month or price list is reported immediately.
    from pipeline.spark import build_session, settings_for

    settings = settings_for(request.usage, str(request.month), incremental=request.incremental)
    spark = build_session("charges", **settings)
    try:
        return compute_readable(spark, request, now, progress)
    finally:
        spark.stop()


def _inventory(path: Path | None) -> tuple[tuple[str, str], ...]:
    if path is None:
        return ()
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise PipelineError(f"{path} cannot be read: {error.strerror}.") from None
    entries = (json.loads(line) for line in text.splitlines())
    return tuple((entry["pair"], entry["entity"]) for entry in entries)


def _description(options: argparse.Namespace, month: Month, prices: PriceList) -> dict[str, Any]:
    return {
        "month": str(month),
        "allocation": options.allocation,
        "hours_in_month": options.hours_in_month or month.hours,
        "sample_prices": prices.is_sample,
    }


def spark_error(error: Exception) -> str | None:
    """Spark's own complaint in one sentence; None where the error is not Spark's."""
    java = getattr(error, "java_exception", None)
    text = java.getMessage() if java is not None else str(error)
    if java is None and not type(error).__module__.startswith(("pyspark", "py4j")):
        return None
    if damaged := damaged_file(error):
        return f"The file {damaged} is damaged: replace it with a good copy, or remove it."
    for part, sentence in KNOWN.items():
        if part in str(text):
            return sentence
    return f"Spark could not finish: {str(text).splitlines()[0].rstrip('.')}."


if __name__ == "__main__":
    sys.exit(main())
