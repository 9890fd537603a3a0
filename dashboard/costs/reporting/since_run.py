"""The operations since the last run of a month, at the prices that the run stored; the next run prices them exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any

from dashboard.costs.prices import Bill, operations_price
from dashboard.costs.rules import is_billed
from dashboard.fleet.usage import metered
from dashboard.models import Invoice
from pipeline.months import Month


@dataclass(frozen=True, slots=True, kw_only=True)
class NotPriced:
    """Operations since a run. `units`: by kind, billable operations; `money`: their price by the prices of the run."""

    since: datetime
    operations: int
    units: Sequence[tuple[str, int]]
    money: Fraction


def not_priced(invoices: Sequence[Invoice], pair: str = "") -> NotPriced | None:
    """The operations of their month since its last run began; None without invoices."""
    if not invoices:
        return None
    since, end = metered.minute_of(invoices[0].run.as_of), Month.parse(invoices[0].month).end
    rows = metered.since(since, end, **({"pair": pair} if pair else {})) if since < end else []
    units = Counter[str]()
    for row in rows:
        units[row["kind"]] += row["billing_units"]
    return NotPriced(
        since=since,
        operations=sum(row["operations"] for row in rows),
        units=[(kind, count) for kind, count in units.most_common() if count],
        money=_price(invoices, rows),
    )


def _price(invoices: Sequence[Invoice], rows: Iterable[Mapping[str, Any]]) -> Fraction:
    """The price of these operations as the next ones on each bill."""
    bills = {bill.scope: Bill(bill) for bill in invoices}
    on_the_ladder, money = Counter[str](), Fraction(0)
    for row in rows:
        bill = bills.get(row["scope"])
        if not is_billed(row["kind"], invoices[0].rule):
            continue
        if bill is not None and bill.has_flat_rate(row["namespace"]):
            money += bill.flat_rate(row["namespace"]) * row["billing_units"]
        else:
            on_the_ladder[row["scope"]] += row["billing_units"]
    new = operations_price(invoices[0]).after(0)
    return money + sum(
        (bills[scope].operations if scope in bills else new).extra(more) for scope, more in on_the_ladder.items()
    )
