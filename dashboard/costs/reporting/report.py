"""The cost report of a month: the total, its parts, and its causes. Read from stored rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from django.db.models import QuerySet, Sum

from dashboard.access.visibility import sees_all
from dashboard.costs.prices import NO_OPERATIONS, invoices_of
from dashboard.costs.reporting.chart import DayOf, DaysChart, days_chart
from dashboard.costs.reporting.explanation import Explanation, explain
from dashboard.costs.reporting.insight import PART_OF, Change, Failover, change, failover
from dashboard.costs.reporting.outages import OutageCost, outage_costs
from dashboard.models import Availability, Charge, ChargeRun, DailyCharge, Invoice
from dashboard.models.visibility import all_pairs
from dashboard.site.tables import Folded, folded
from pairing.telemetry.metering import KINDS
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
ROWS_SHOWN, FIRST_ROWS, MOST_SHARES = 40, 8, 50
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A month's charges, for one pair or all."""

    month: str
    rule: str
    pair: str
    run: ChargeRun
    currency: str
    total: int
    invoices: Sequence[Invoice]
    by_scope: Sequence[tuple[str, int]]
    parts: Sequence[Share]
    by_kind: Sequence[Share]
    by_entity: Sequence[Share]
    by_namespace: Sequence[Share]
    rows: Sequence[Charge]
    row_count: int
    chosen: Filters
    failover: Failover
    change: Change | None
    chart: DaysChart | None
    failover_chart: DaysChart | None
    outages: Sequence[OutageCost]
    availability: Sequence[Availability]

    @property
    def is_part(self) -> bool:
        """Whether the rows are not those of whole invoices."""
        return self.is_filtered or not self.invoices

    @property
    def is_filtered(self) -> bool:
        """Whether one pair is chosen, or another filter."""
        return self.chosen.is_used or bool(self.pair)

    @property
    def explained(self) -> Folded[tuple[Charge, Explanation]]:
        """The rows, each with the calculation of its charge."""
        connections = _connections_by_invoice(self.invoices)
        rows = [(row, explain(row, self.run.details, connections[row.invoice_id])) for row in self.rows]
        return folded(rows, FIRST_ROWS, lambda one: not one[0].cents)

    @property
    def has_several_pairs(self) -> bool:
        """Whether the rows of a namespace may belong to more than one pair."""
        return len({row.pair for row in self.rows if row.pair}) > 1

    @property
    def tiers(self) -> list[TierUse]:
        """The price tiers of operations, of each billing scope that has rows here."""
        shown = dict(self.by_scope)
        return [
            TierUse(
                scope=invoice.scope,
                label=label,
                price=price,
                unit=unit,
                units=units,
            )
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
                f"from {Decimal(row['from']).normalize():f} × {row['unit']}",
                f"{row['price']} {row['currency']}",
                row["unit"],
                True,
            )
            for row in rows
            if row["meter"] == OPERATIONS_METER
        ]
        return [*ladder, ("Basic", price, unit, False), ("Premium, included", "0", "operation", False)]

    @property
    def unpriced_bytes(self) -> int:
        """Bytes that crossed regions at an unknown price."""
        return sum(invoice.unpriced_bytes for invoice in self.invoices)


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
    """The month's report; None if no charges are stored.

    To somebody who does not see all pairs it shows the rows of the others, and no invoices: they are of all pairs.
    """
    filters = filters or Filters()
    if not (invoices := invoices_of(month)):
        return None
    first = invoices[0]
    charges = filters.of(Charge.objects.filter(invoice__month=month))
    total = charges.aggregate(cents=Sum("cents"))["cents"] or 0
    kinds = _shares(charges, "kind")
    added, days = failover(invoices, filters.pair), _daily(invoices, filters.kind)
    return Report(
        month=month,
        rule=first.rule,
        pair=filters.pair,
        run=_shown(first.run),
        currency=first.currency,
        total=total,
        invoices=invoices if sees_all() else (),
        by_scope=_by_scope(charges) if sees_all() else (),
        parts=_parts(kinds),
        by_kind=with_widths([each for each in kinds if each.name not in NO_OPERATIONS]),
        by_entity=_shares(charges.exclude(kind__in=NO_OPERATIONS), "entity", "pair"),
        by_namespace=_shares(charges.exclude(kind=BASE, namespace__startswith="$"), "namespace"),
        rows=list(
            charges.select_related("invoice").order_by("-cents", "-billing_units", "entity", "kind")[:ROWS_SHOWN]
        ),
        row_count=charges.count(),
        chosen=filters,
        failover=added,
        change=None if filters.is_used else change(month, filters.pair, total, first.currency),
        outages=outage_costs(month, filters.pair, invoices),
        availability=list(_availability(month, filters.pair)),
        chart=days_chart(month, [_of_all(row) for row in days], first.currency),
        failover_chart=days_chart(month, _of_failover(days, added), first.currency),
    )


def _shown(run: ChargeRun) -> ChargeRun:
    """The run; without its remarks and counts, which are about all pairs, for somebody who does not see them all."""
    if not sees_all():
        run.details = {name: run.details[name] for name in SHOWN_TO_ALL if name in run.details}
        run.started_by = ""
    return run


def _availability(month: str, pair: str) -> QuerySet[Availability]:
    known = Availability.objects.filter(month=month)
    return known.filter(pair=pair) if pair else known


def _daily(invoices: Sequence[Invoice], kind: str) -> Sequence[DailyCharge]:
    return list(DailyCharge.objects.filter(invoice__in=invoices, **({"kind": kind} if kind else {})))


def _of_all(row: DailyCharge) -> DayOf:
    return DayOf(row.date, OPERATIONS, row.operations, Fraction(row.exact))


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


def _by_scope(charges: QuerySet[Charge]) -> list[tuple[str, int]]:
    """What each billing scope with such rows has of the total, in cents."""
    return sorted(charges.order_by().values_list("invoice__scope").annotate(cents=Sum("cents")))


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


def _shares(charges: QuerySet[Charge], by: str, *within: str) -> list[Share]:
    """What each value of this column has of the total, the largest ones first; `within`: of each pair by itself."""
    sums = {f"sum_{column}": Sum(column) for column in SUMS}
    grouped = (
        charges.order_by()
        .values(by, *within)
        .annotate(**sums)
        .order_by("-sum_cents", "-sum_billing_units", by, *within)
    )
    return with_widths(
        [
            Share(
                name=row[by],
                label=LABELS.get(row[by], row[by]),
                pair=row.get("pair", ""),
                **{column: row[f"sum_{column}"] for column in SUMS},
            )
            for row in grouped[:MOST_SHARES]
        ]
    )


def with_widths(slices: Sequence[Share]) -> list[Share]:
    """The parts with the widths of their bars: by cost, or by operations if everything is free."""
    by_cost = any(each.cents for each in slices)
    sizes = [each.cents if by_cost else each.billing_units for each in slices]
    top = max([*sizes, 1])
    return [replace(each, width=round(100 * size / top)) for each, size in zip(slices, sizes, strict=True)]
