"""The cost report of a month: the total, its parts, and its causes. Read from stored rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any

from django.db.models import F, QuerySet, Sum

from dashboard.access.visibility import sees_all
from dashboard.costs.prices import NO_OPERATIONS, invoices_of
from dashboard.costs.reporting.chart import DayOf, DaysChart, days_chart
from dashboard.costs.reporting.explanation import Explanation, explain
from dashboard.costs.reporting.insight import PART_OF, Change, Failover, change, expected, failover
from dashboard.costs.reporting.outages import OutageCost, outage_costs
from dashboard.fleet.pairs.pairs_file import tags
from dashboard.models import Availability, Charge, ChargeRun, DailyCharge, Invoice
from dashboard.models.visibility import all_pairs
from dashboard.site.money import cents
from pairing.telemetry.metering import KINDS
from pipeline.months import Month
from pipeline.price_tiers import BASIC_OPERATIONS
from pipeline.price_tiers import OPERATIONS as OPERATIONS_METER

BASE, CONNECTIONS, BANDWIDTH = NO_OPERATIONS
OPERATIONS = "operations"
LABELS = {name: kind.label for name, kind in KINDS.items()} | {
    BASE: "Base charge",
    CONNECTIONS: "Connections",
    BANDWIDTH: "Bandwidth between regions",
}
SUMS = ("operations", "billing_units", "included_units", "cents")
MOST_SHARES = 25
Rows = QuerySet[Any, dict[str, Any]]
SHOWN_TO_ALL = ("prices", "sample_prices")
"""What a run's details say of no pair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One part of the total: its label, usage and cost. `width`: relative to the largest part, 0 to 100."""

    name: str
    label: str
    pair: str = ""
    operations: int
    billing_units: int
    included_units: int
    cents: int
    width: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The filters of the report; empty fields match everything."""

    pair: str = ""
    namespace: str = ""
    entity: str = ""
    kind: str = ""

    @property
    def is_used(self) -> bool:
        """Whether there is one besides that of the pair."""
        return any((self.namespace, self.entity, self.kind))

    def of(self, charges: QuerySet[Charge]) -> QuerySet[Charge]:
        """The matching rows."""
        fields = ("pair", "namespace", "entity", "kind")
        return charges.filter(**{field: value for field in fields if (value := getattr(self, field))})


@dataclass(frozen=True, slots=True, kw_only=True)
class TierUse:
    """A price tier of operations, and how many of a scope's billable units were in it."""

    scope: str
    label: str
    price: str
    unit: str
    units: int


class Report:
    """A month's charges, for one pair or all. Each part is read when it is used: a page shows a few of them.

    To somebody who does not see all pairs it shows the rows of the others, and no invoices: they are of all pairs.
    """

    def __init__(self, filters: Filters, bills: Sequence[Invoice]) -> None:
        first = bills[0]
        self.month, self.chosen, self.pair = first.month, filters, filters.pair
        self.rule, self.currency, self.run = first.rule, first.currency, _shown(first.run)
        self.invoices: Sequence[Invoice] = bills if sees_all() else ()
        self.charges = filters.of(Charge.objects.filter(invoice__month=self.month))
        self._bills = bills

    @cached_property
    def total(self) -> int:
        """In cents."""
        return self.charges.aggregate(cents=Sum("cents"))["cents"] or 0

    @cached_property
    def by_scope(self) -> Sequence[tuple[str, int]]:
        """What each billing scope with such rows has of the total, in cents."""
        found = self.charges.order_by().values_list("invoice__scope").annotate(cents=Sum("cents"))
        return sorted(found) if sees_all() else ()

    @cached_property
    def _kinds(self) -> Sequence[Share]:
        return shares_of(shares(self.charges, "kind"))

    @property
    def parts(self) -> Sequence[Share]:
        return _parts(self._kinds)

    @property
    def by_kind(self) -> Sequence[Share]:
        return with_widths([each for each in self._kinds if each.name not in NO_OPERATIONS])

    @property
    def by_pair(self) -> Rows:
        return shares(self.charges.exclude(pair=""), "pair")

    @property
    def by_tag(self) -> list[tuple[str, Sequence[Share]]]:
        """Of each key of the pairs' tags, what its values have of the total; — for pairs without it."""
        known = tags()
        keys = sorted({key for of_pair in known.values() for key in of_pair})
        found = {key: defaultdict[str, Counter[str]](Counter) for key in keys}
        for row in self.by_pair if keys else ():
            for key, values in found.items():
                values[known.get(row["name"], {}).get(key, "—")].update({name: row[f"sum_{name}"] for name in SUMS})
        shown = {key: [_share(name, sums) for name, sums in found[key].items()] for key in keys}
        return [(key, with_widths(sorted(of, key=lambda one: -one.cents))) for key, of in shown.items()]

    @property
    def by_entity(self) -> Rows:
        """Each of its pair by itself."""
        return shares(self.charges.exclude(kind__in=NO_OPERATIONS), "entity", "pair")

    @property
    def by_namespace(self) -> Sequence[Share]:
        return shares_of(shares(self.charges.exclude(kind=BASE, namespace__startswith="$"), "namespace")[:MOST_SHARES])

    @property
    def rows(self) -> QuerySet[Charge]:
        """The most expensive first."""
        return self.charges.select_related("invoice").order_by("-cents", "-billing_units", "entity", "kind", "id")

    def explained(self, rows: Iterable[Charge]) -> list[tuple[Charge, Explanation]]:
        """Rows of it, each with the calculation of its charge."""
        connections = _connections_by_invoice(self.invoices)
        return [(row, explain(row, self.run.details, connections[row.invoice_id])) for row in rows]

    @cached_property
    def failover(self) -> Failover:
        return failover(self._bills, self.pair)

    @cached_property
    def change(self) -> Change | None:
        """Compared with the month before; of one that is not over, its whole days until the run if they are known."""
        if self.chosen.is_used:
            return None
        begun = self.run.as_of < Month.parse(self.month).end
        days = self.run.as_of.day - 1 if begun and not self.pair else 0
        so_far = sum((Fraction(row.exact) for row in self._days if row.date.day <= days), Fraction(0))
        found = change(self.month, "", cents(so_far), self.currency, days) if days else None
        return found or change(self.month, self.pair, self.total, self.currency)

    @property
    def expected(self) -> int | None:
        """The invoice at the end of the month, in cents; None once it is over, and of a part of it."""
        return None if self.is_part else expected(self.invoices)

    @cached_property
    def _days(self) -> Sequence[DailyCharge]:
        kind = {"kind": self.chosen.kind} if self.chosen.kind else {}
        return list(DailyCharge.objects.filter(invoice__in=self._bills, **kind))

    @property
    def chart(self) -> DaysChart | None:
        of_all = [DayOf(row.date, OPERATIONS, row.operations, Fraction(row.exact)) for row in self._days]
        return days_chart(self.month, of_all, self.currency)

    @property
    def failover_chart(self) -> DaysChart | None:
        return days_chart(self.month, _of_failover(self._days, self.failover), self.currency)

    @cached_property
    def outages(self) -> Sequence[OutageCost]:
        return outage_costs(self.month, self.pair, self._bills)

    @property
    def availability(self) -> QuerySet[Availability]:
        known = Availability.objects.filter(month=self.month)
        return known.filter(pair=self.pair) if self.pair else known

    @property
    def is_part(self) -> bool:
        """Whether the rows are not those of whole invoices."""
        return self.is_filtered or not self.invoices

    @property
    def is_filtered(self) -> bool:
        """Whether one pair is chosen, or another filter."""
        return self.chosen.is_used or bool(self.pair)

    @property
    def tiers(self) -> list[TierUse]:
        """The price tiers of operations, of each billing scope that has rows here."""
        shown = dict(self.by_scope)
        return [
            TierUse(scope=invoice.scope, label=label, price=price, unit=unit, units=units)
            for invoice in self.invoices
            if invoice.scope in shown or not self.is_filtered
            for (label, price, unit, is_standard), units in zip(self._tier_labels, invoice.tiers, strict=False)
            if units or is_standard
        ]

    @property
    def _tier_labels(self) -> list[tuple[str, str, str, bool]]:
        """Label, price and unit of each place of an invoice's `tiers`, and whether it is a tier of Standard: then it is
        shown also without operations.
        """
        rows = self.run.details.get("prices", [])
        basic = next((row for row in rows if row["meter"] == BASIC_OPERATIONS), None)
        price, unit = (f"{basic['price']} {basic['currency']}", basic["unit"]) if basic else ("", "")
        ladder = [
            (
                f"from {Decimal(row['from']).normalize():,f} × {row['unit']}",
                f"{Decimal(row['price']).normalize():f} {row['currency']}",
                row["unit"],
                True,
            )
            for row in rows
            if row["meter"] == OPERATIONS_METER
        ]
        return [*ladder, ("Basic", price, unit, False), ("Premium, included", "0", "operation", False)]

    @property
    def unpriced_gigabytes(self) -> Fraction:
        """What crossed regions at an unknown price."""
        return Fraction(sum(invoice.unpriced_bytes for invoice in self.invoices), 10**9)


def months(now: datetime) -> list[str]:
    """The months that can be shown, newest first: those with charges, and the current one."""
    with all_pairs():
        stored = set(Invoice.objects.values_list("month", flat=True).distinct())
    return sorted(stored | {now.strftime("%Y-%m")}, reverse=True)


def pairs(month: str) -> list[str]:
    """The pairs with charges in the month."""
    named = Charge.objects.filter(invoice__month=month).exclude(pair="")
    return list(named.values_list("pair", flat=True).distinct().order_by("pair"))


def report(month: str, filters: Filters | None = None) -> Report | None:
    """The month's report; None if no charges are stored."""
    invoices = invoices_of(month)
    return Report(filters or Filters(), invoices) if invoices else None


def _shown(run: ChargeRun) -> ChargeRun:
    """The run; without its remarks and counts, which are about all pairs, for somebody who does not see them all."""
    if sees_all():
        return run
    shown = copy(run)
    shown.details = {name: run.details[name] for name in SHOWN_TO_ALL if name in run.details}
    shown.started_by = ""
    return shown


def _of_failover(rows: Iterable[DailyCharge], added: Failover) -> list[DayOf]:
    """The parts of the cost of failover by day, at the price that the month has for them."""
    return [
        DayOf(
            row.date,
            PART_OF[row.kind],
            row.operations,
            row.billing_units * added.rates.get(row.invoice_id, Fraction(0)),
        )
        for row in rows
        if row.kind in PART_OF
    ]


def _connections_by_invoice(invoices: Sequence[Invoice]) -> Mapping[int, Fraction]:
    """The average connections of each invoice's billing scope."""
    sums: dict[int, Fraction] = defaultdict(Fraction)
    found = Charge.objects.filter(invoice__in=invoices, kind=CONNECTIONS)
    for invoice, quantity in found.values_list("invoice", "quantity"):
        sums[invoice] += Fraction(quantity)
    return sums


def _parts(kinds: Sequence[Share]) -> list[Share]:
    """The parts of the total that have rows: base charge, operations, connections and bandwidth."""
    by_part: dict[str, list[Share]] = defaultdict(list)
    for each in kinds:
        by_part[each.name if each.name in NO_OPERATIONS else OPERATIONS].append(each)
    return with_widths(
        [
            Share(
                name=name,
                label=LABELS.get(name, "Operations"),
                **{column: sum(getattr(each, column) for each in shares) for column in SUMS},
            )
            for name in (BASE, OPERATIONS, CONNECTIONS, BANDWIDTH)
            if (shares := by_part[name])
        ]
    )


def shares(charges: QuerySet[Charge], by: str, *within: str) -> Rows:
    """What each value of this column has of the total, the largest ones first; `within`: of each pair by itself."""
    sums = {f"sum_{column}": Sum(column) for column in SUMS}
    grouped = charges.order_by().values(by, *within).annotate(name=F(by), **sums)
    ordered: Rows = grouped.order_by("-sum_cents", "-sum_billing_units", by, *within)
    return ordered


def shares_of(rows: Iterable[Mapping[str, Any]]) -> list[Share]:
    """Rows of `shares`, with the widths of their bars."""
    return with_widths(
        [_share(row["name"], {column: row[f"sum_{column}"] for column in SUMS}, row.get("pair", "")) for row in rows]
    )


def _share(name: str, sums: Mapping[str, int], pair: str = "") -> Share:
    return Share(name=name, label=LABELS.get(name, name), pair=pair, **sums)


def with_widths(slices: Sequence[Share]) -> list[Share]:
    """The parts with the widths of their bars: by cost, or by operations if everything is free."""
    by_cost = any(each.cents for each in slices)
    sizes = [each.cents if by_cost else each.billing_units for each in slices]
    top = max([*sizes, 1])
    return [replace(each, width=round(100 * size / top)) for each, size in zip(slices, sizes, strict=True)]
