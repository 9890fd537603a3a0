"""The price rows of a list that are valid in a month, as the pipeline reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.costs.jobs import JobFailed, run_job


@dataclass(frozen=True, slots=True)
class ListedPrices:
    """The rows, in the form in which a run stores those that it used, and whether they are those of a sample."""

    rows: list[dict[str, str]]
    is_sample: bool


def listed_prices(month: str, arguments: Sequence[str]) -> ListedPrices:
    """The rows of the list that these arguments name. Raises JobFailed."""
    reported: list[dict[str, Any]] = []
    run_job("pipeline.jobs.prices", ["--month", month, *arguments], reported.append)
    if not reported:
        raise JobFailed("The prices could not be read.")
    return ListedPrices(reported[-1]["prices"], reported[-1]["sample"])
