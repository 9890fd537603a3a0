"""The inputs of a run besides usage: counting rule, allocation, hours, prices, and tiers and regions of namespaces.

A past month is computed again with the inputs of its last run, unless somebody asks for today's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils import timezone

from dashboard.costs.rules import chosen_rule
from dashboard.costs.runs.jobs import JobFailed, argument_for
from dashboard.fleet.pairs.pairs_file import PairConfig, PairsFileError, load_pairs
from dashboard.models import ChargeRun
from pipeline.months import Month

DEFAULT_PRICES = settings.BASE_DIR / "prices.json"
Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """What the charges of a month follow from. `prices`: the job's arguments; no `hours`: those of the calendar."""

    rule: str
    allocation: str
    prices: Sequence[str]
    namespaces: Sequence[Record]
    hours: int | None = None

    def arguments(self, folder: Path) -> list[str]:
        """The job's arguments, with the namespaces in a file of this folder."""
        words = ["--allocation", self.allocation, *self.prices]
        if self.hours is not None:
            words += ["--hours-in-month", str(self.hours)]
        if self.namespaces:
            path = folder / "namespaces.jsonl"
            path.write_text("".join(json.dumps(record) + "\n" for record in self.namespaces))
            words += ["--namespaces", str(path)]
        return words


def inputs_of(month: str, folder: Path, *, todays: bool = False) -> Inputs:
    """Those of the last run of a past month, else those of today. Raises JobFailed."""
    last = ChargeRun.objects.filter(month=month, status=ChargeRun.Status.SUCCEEDED).first()
    if last is None or todays or timezone.now() < Month.parse(month).end:
        chosen = chosen_rule()
        prices = price_arguments(configured_prices())
        return Inputs(rule=chosen.rule, allocation=chosen.allocation, prices=prices, namespaces=namespaces())
    details = last.details
    return Inputs(
        rule=last.rule,
        allocation=last.allocation,
        prices=["--prices", str(_price_list(folder, details["prices"], is_sample=details["sample_prices"]))],
        namespaces=details["namespaces"],
        hours=details["hours_in_month"],
    )


def _price_list(folder: Path, rows: Sequence[Mapping[str, str]], *, is_sample: bool) -> Path:
    """Write the price rows of a run as a price list."""
    path = folder / "prices-of-last-run.json"
    marked = {"Sample": True} if is_sample else {}
    path.write_text(json.dumps({"Items": [_item(row) for row in rows], **marked}), encoding="utf-8")
    return path


def _item(row: Mapping[str, str]) -> dict[str, str]:
    return {
        "meterName": row["meter"],
        "skuName": row["meter"].split()[0],
        "unitOfMeasure": row["unit"],
        "tierMinimumUnits": row["from"],
        "retailPrice": row["price"],
        "currencyCode": row["currency"],
        "armRegionName": row["region"],
        "effectiveStartDate": row["valid_from"],
    }


def namespaces() -> list[Record]:
    """The tiers and regions of PAIRS_FILE; without one all are Standard and in one region. Raises JobFailed."""
    if not Path(settings.PAIRS_FILE).exists():
        return []
    try:
        pairs = load_pairs()
    except PairsFileError as error:
        raise JobFailed(f"PAIRS_FILE cannot be used, so tiers and regions are not known. {error}") from error
    return [record for pair in pairs.values() for record in _records(pair)]


def _records(pair: PairConfig) -> Iterator[Record]:
    for end in (pair.primary, pair.secondary):
        yield {
            "record": "namespace",
            "name": end.namespace,
            "scope": pair.scope(end.namespace),
            "tier": end.tier,
            "messaging_units": end.messaging_units,
        }
    if pair.crosses_regions:
        price = pair.bandwidth_per_gb
        yield {"record": "crossing", "pair": pair.name, "per_gigabyte": price, "meter": pair.bandwidth_meter}


def configured_prices() -> str:
    """The price list of PRICES_FILE; empty if none is configured, so that the job uses the sample list.

    A configured file that does not exist is returned too: the job reports that it cannot be read.
    """
    path = Path(settings.PRICES_FILE)
    return "" if path == DEFAULT_PRICES and not path.exists() else str(path)


def price_arguments(prices: str, region: str = "") -> list[str]:
    """The job's arguments for a price list, and for one region of it, by default PRICES_REGION.

    The sample list, which is used if no list is given, has one region of its own, so no region is passed for it.
    """
    region = region or (settings.PRICES_REGION if prices else "")
    return [*(["--prices", argument_for(prices)] if prices else []), *(["--region", region] if region else [])]
