"""The prices of a month: those of its last run or those that are configured, and the price on a bill."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from dashboard.costs.runs.inputs import configured_prices, price_arguments
from dashboard.costs.runs.jobs import JobFailed, run_job
from dashboard.models import ChargeRun, Invoice
from dashboard.models.visibility import all_pairs
from pipeline.price_tiers import FREE, OPERATIONS, Price

NO_OPERATIONS = ("base", "connections", "bandwidth")
"""The kinds of charges that are not for operations."""


def invoices_of(month: str) -> list[Invoice]:
    """The month's invoices, which are of all pairs, with their run, which is read once."""
    with all_pairs():
        found = list(Invoice.objects.filter(month=month))
        runs = ChargeRun.objects.in_bulk({invoice.run_id for invoice in found})
    for invoice in found:
        invoice.run = runs[invoice.run_id]
    return found


@dataclass(frozen=True, slots=True)
class Prices:
    """The price rows of all meters in a month, and whether they are those of a sample."""

    rows: Sequence[Mapping[str, str]]
    is_sample: bool

    @property
    def currency(self) -> str:
        return self.rows[0]["currency"]

    @property
    def operations(self) -> Price:
        """The price of an operation in Standard."""
        return Price.of(self.rows, OPERATIONS) or FREE


def prices_of(month: str) -> Prices:
    """The month's prices: those of its last run or, before the first, those that are configured. Raises JobFailed."""
    with all_pairs():
        run = ChargeRun.objects.filter(month=month, status=ChargeRun.Status.SUCCEEDED).first()
    return Prices(run.details["prices"], run.details["sample_prices"]) if run else listed(month)


def listed(month: str) -> Prices:
    """The month's prices from PRICES_FILE, or the sample list. Raises JobFailed."""
    path = configured_prices()
    changed = Path(path).stat().st_mtime_ns if path and Path(path).exists() else 0  # a new list is read again
    return _listed(month, tuple(price_arguments(path)), changed)


@lru_cache(maxsize=8)
def _listed(month: str, arguments: tuple[str, ...], changed: int) -> Prices:
    reported: list[dict[str, Any]] = []
    run_job("pipeline.jobs.prices", ["--month", month, *arguments], reported.append)
    if not reported:
        raise JobFailed("The prices could not be read.")
    return Prices(reported[-1]["prices"], reported[-1]["sample"])


def operations_price(invoice: Invoice) -> Price:
    """The price of Standard operations on this bill, after those that are on it."""
    price = Price.of(invoice.run.details.get("prices", []), OPERATIONS) or FREE
    return price.after(int(invoice.units - sum(invoice.tiers[len(price.tiers) :])))


class Bill:
    """The prices of one invoice, each looked up once: a month can have a thousand outages."""

    def __init__(self, invoice: Invoice) -> None:
        self._invoice = invoice
        tiers: dict[str, str] = invoice.run.details.get("tiers", {})
        self._elsewhere = frozenset(namespace for namespace, tier in tiers.items() if tier != "standard")
        self.operations = operations_price(invoice)
        self.flat_rate = cache(self._flat_rate)
        """By namespace without tiers (Basic, Premium), the price of an operation; those of Premium are free."""

    def has_flat_rate(self, namespace: str) -> bool:
        """Whether it is a Basic or Premium namespace."""
        return namespace in self._elsewhere

    def _flat_rate(self, namespace: str) -> Fraction:
        rows = list(self._invoice.charges.filter(namespace=namespace).exclude(kind__in=NO_OPERATIONS))
        units = sum(row.billing_units for row in rows)
        return sum((Fraction(row.exact) for row in rows), Fraction(0)) / units if units else Fraction(0)
