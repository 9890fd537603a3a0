"""`python -m pipeline.jobs.prices`: the price rows valid in a month, as one JSON object. Needs no Spark."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from pipeline.errors import PipelineError
from pipeline.months import Month
from pipeline.prices import price_records, read_prices
from pipeline.progress import end_with_stdin, failed

SAMPLE_PRICES = Path(__file__).parent.parent / "data" / "prices-sample.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the rows; returns the exit status."""
    options = argparse.ArgumentParser(prog="python -m pipeline.jobs.prices", description="Print the prices of a month.")
    options.add_argument("--month", required=True, help="YYYY-MM")
    options.add_argument("--prices", type=Path, default=SAMPLE_PRICES, help="answer of the Retail Prices API")
    options.add_argument("--region", help="armRegionName, if the price list has several")
    options.add_argument("--end-with-stdin", action="store_true", help="end when standard input is closed")
    given = options.parse_args(arguments)
    if given.end_with_stdin:
        end_with_stdin()
    try:
        prices = read_prices(given.prices, Month.parse(given.month), given.region)
    except PipelineError as error:
        failed(str(error))
        return 2
    print(json.dumps({"stage": "done", "prices": price_records(prices), "sample": prices.is_sample}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
