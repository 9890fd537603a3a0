"""Compares computed charges with the bill, by meter and day, under the counting rule that the bill follows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from fractions import Fraction
from hashlib import sha256
from io import BytesIO

from django.db import transaction
from django.db.models import Sum as SumOf

from dashboard.costs.bill.statements import read_export
from dashboard.costs.prices import invoices_of, operations_price
from dashboard.costs.rules import is_billed
from dashboard.models import BilledDay, Charge, DailyCharge, Invoice, Statement
from dashboard.models.charge import PUBLISHED, SETTLEMENTS
from dashboard.site.money import exact_text
from pairing.telemetry.metering import SETTLEMENT_KINDS
from pipeline.months import Month

MOST_ELSEWHERE = 200
SYSTEM = "$system"
WHOLE, CENT = Fraction(1), Fraction(1, 100)
OPERATIONS = "operations"
OTHER_METERS = {
    "base": ("Base charge", "unit hours", ("base unit", "messaging unit")),
    "connections": ("Brokered connections", "connections", ("brokered connection",)),
    "bandwidth": ("Bandwidth between regions", "GB", ("data transfer",)),
}
"""By kind of charge that is not one of operations: label, unit, and words in the names of its meters."""


@transaction.atomic
def import_bill(month: str, name: str, data: bytes, person: str, now: datetime) -> Statement:
    """Store the bill of a month; it replaces the previous one. Raises StatementError."""
    parsed = read_export(BytesIO(data), month)
    described = {
        "name": name[:200],
        "digest": sha256(data).hexdigest(),
        "rows": parsed.rows,
        "skipped": dict(parsed.skipped),
        "currency": parsed.currency[:3],
        "uploaded_by": person,
        "uploaded_at": now,
    }
    statement, _ = Statement.objects.update_or_create(month=month, defaults=described)
    statement.days.all().delete()
    days = [
        BilledDay(
            statement=statement,
            date=each.date,
            scope=each.scope[:200],
            namespace=each.namespace[:260],
            meter=each.meter,
            quantity=exact_text(each.quantity),
            cost=exact_text(each.cost),
        )
        for each in parsed.sums
    ]
    BilledDay.objects.bulk_create(days, batch_size=1_000)
    return statement


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The least and the most that was computed, and the figure of the bill.

    They are one figure, except for days of namespaces of several tiers. `tolerance`: the rounding of exports, a whole
    unit of a quantity or a cent of money.
    """

    label: str
    least: Fraction
    most: Fraction
    billed: Fraction
    tolerance: Fraction = WHOLE

    @property
    def unexplained(self) -> Fraction:
        """The distance of the billed figure from the range; negative below it."""
        return min(Fraction(0), self.billed - self.least) + max(Fraction(0), self.billed - self.most)

    @property
    def is_explained(self) -> bool:
        """Whether the figure lies inside the range, within the tolerance."""
        return abs(self.unexplained) <= self.tolerance


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """A meter of the bill: its quantity in `unit`, and its cost."""

    quantity: Range
    cost: Range
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """A month compared with its bill, under the counting rule with the fewest unexplained days.

    `computed_rule`: that of the stored charges. `until`: the export's last day; `elsewhere`: what is billed for
    namespaces that are not metered here, the most expensive first, of `elsewhere_count` in all. `has_premium`:
    operations of Premium namespaces, which are on no bill, are left out.
    """

    rule: str
    computed_rule: str
    until: date
    meters: Sequence[Meter]
    days: Sequence[Range]
    elsewhere: Sequence[tuple[str, str, Fraction, Fraction]]
    elsewhere_count: int
    currencies: tuple[str, str]
    has_premium: bool

    @property
    def explained_days(self) -> int:
        return sum(day.is_explained for day in self.days)

    @property
    def is_in_one_currency(self) -> bool:
        """Whether the money can be compared."""
        return self.currencies[0] == self.currencies[1]

    @property
    def cost(self) -> Range:
        """All compared meters together."""
        costs = [meter.cost for meter in self.meters]
        return Range(
            label="Together",
            least=sum((cost.least for cost in costs), Fraction(0)),
            most=sum((cost.most for cost in costs), Fraction(0)),
            billed=sum((cost.billed for cost in costs), Fraction(0)),
            tolerance=CENT,
        )


@dataclass(slots=True)
class _Computed:
    """The operations of the month that a counting rule bills: by day, and together with their cost.

    Each quantity has a least and a most, as the share of Premium namespaces is not known by day.
    """

    rule: str
    days: dict[date, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    units: list[int] = field(default_factory=lambda: [0, 0])
    has_premium: bool = False
    cost: Fraction = Fraction(0)


def against_bill(month: str) -> Against | None:
    """The month compared with its cost export; None without an export or a computed month."""
    statement = Statement.objects.filter(month=month).first()
    invoices = invoices_of(month)
    if statement is None or not invoices:
        return None
    rows = list(statement.days.all())
    ours = _ours(invoices, rows, _namespaces(month))
    until = max(row.date for row in rows)
    billed = _operations_by_day(ours)
    known = _Known.of(invoices)
    both = [(_computed(invoices, known, rule, until), rule != invoices[0].rule) for rule in (PUBLISHED, SETTLEMENTS)]
    computed, _ = min(both, key=lambda one: (sum(not day.is_explained for day in _days(one[0], billed)), one[1]))
    own = {row.pk for row in ours}
    elsewhere = _elsewhere(row for row in rows if row.pk not in own)
    return Against(
        rule=computed.rule,
        computed_rule=invoices[0].rule,
        until=until,
        meters=_meters(month, until, computed, ours),
        days=_days(computed, billed),
        elsewhere=elsewhere[:MOST_ELSEWHERE],
        elsewhere_count=len(elsewhere),
        currencies=(invoices[0].currency, statement.currency),
        has_premium=computed.has_premium,
    )


def _namespaces(month: str) -> set[str]:
    """The namespaces with rows in the month's invoices."""
    names = Charge.objects.filter(invoice__month=month).values_list("namespace", flat=True).distinct()
    return {name.lower() for name in names if name != SYSTEM}


def _ours(invoices: Sequence[Invoice], rows: Sequence[BilledDay], known: Container[str]) -> list[BilledDay]:
    """Rows of metered namespaces; rows of `$system`, and rows of a known meter that name no namespace, if their
    subscription is metered.
    """
    scopes = {invoice.scope.lower() for invoice in invoices}
    scopes |= {row.scope for row in rows if row.namespace in known} | {""}
    return [
        row
        for row in rows
        if row.namespace in known
        or (row.scope in scopes and (row.namespace == SYSTEM or (not row.namespace and _kind_of(row))))
    ]


@dataclass(frozen=True, slots=True)
class _Known:
    """By invoice, its days, and the operations of Premium namespaces by kind, which messaging units include."""

    days: Mapping[int, Sequence[DailyCharge]]
    premium: Mapping[int, Mapping[str, int]]

    @classmethod
    def of(cls, invoices: Sequence[Invoice]) -> _Known:
        days, premium = defaultdict[int, list[DailyCharge]](list), defaultdict[int, dict[str, int]](dict)
        for day in DailyCharge.objects.filter(invoice__in=invoices):
            days[day.invoice_id].append(day)
        tiers: dict[str, str] = invoices[0].run.details.get("tiers", {})
        rows = Charge.objects.filter(
            invoice__in=invoices, namespace__in=[name for name, tier in tiers.items() if tier == "premium"]
        )
        for key, kind, units in rows.order_by().values_list("invoice", "kind").annotate(units=SumOf("billing_units")):
            premium[key][kind] = units
        return cls(days, premium)


def _computed(invoices: Sequence[Invoice], known: _Known, rule: str, until: date) -> _Computed:
    """The operations until that day under the rule. Those of Premium namespaces are on no bill: they are left out.

    Sums by day are stored per billing scope, sums by kind also per namespace. If a kind was also made in namespaces of
    another tier, its billed operations of some days lie between two bounds; those of the month are exact.
    """
    found = _Computed(rule)
    for invoice in invoices:
        days: dict[str, dict[date, int]] = defaultdict(dict)
        for row in known.days[invoice.pk]:
            days[row.kind][row.date] = row.operations if row.kind in SETTLEMENT_KINDS else row.billing_units
            found.cost += Fraction(row.exact) if row.date <= until else 0
        premium = known.premium[invoice.pk]
        found.cost += _settled(invoice, days, premium, until, rule)
        found.has_premium |= any(premium.values())
        for kind, by_day in days.items():
            if is_billed(kind, rule):
                _add(found, by_day, premium.get(kind, 0), until)
    return found


def _add(found: _Computed, by_day: Mapping[date, int], premium: int, until: date) -> None:
    rest = sum(by_day.values()) - premium
    past = {day: units for day, units in by_day.items() if day <= until}
    for sums, units in [
        *((found.days[day], units) for day, units in past.items()),
        (found.units, sum(past.values())),
    ]:
        sums[0] += max(0, units - premium)
        sums[1] += min(units, rest)


def _settled(
    invoice: Invoice, days: Mapping[str, Mapping[date, int]], premium: Mapping[str, int], until: date, rule: str
) -> Fraction:
    """What another rule than the invoice's adds to its cost until that day, or takes from it, for settling."""
    if rule == invoice.rule:
        return Fraction(0)
    units = {
        kind: sum(count for day, count in by_day.items() if day <= until) - premium.get(kind, 0)
        for kind, by_day in days.items()
    }
    settled = max(0, sum(count for kind, count in units.items() if kind in SETTLEMENT_KINDS))
    billed = sum(count for kind, count in units.items() if is_billed(kind, invoice.rule))
    price = operations_price(invoice).after(billed)
    return price.extra(settled) if rule == SETTLEMENTS else -price.last(settled)


def _kind_of(row: BilledDay) -> str:
    """The kind of charge that its meter bills; empty if it bills none of those that are computed."""
    meter = row.meter.lower()
    if meter.endswith("messaging operations"):
        return OPERATIONS
    return next((kind for kind, (_, _, words) in OTHER_METERS.items() if any(word in meter for word in words)), "")


def _operations_by_day(rows: Iterable[BilledDay]) -> Mapping[date, Fraction]:
    billed: dict[date, Fraction] = defaultdict(Fraction)
    for row in rows:
        if _kind_of(row) == OPERATIONS:
            billed[row.date] += Fraction(row.quantity)
    return billed


def _days(computed: _Computed, billed: Mapping[date, Fraction]) -> list[Range]:
    return [
        _range(day.isoformat(), computed.days.get(day, (0, 0)), billed.get(day, Fraction(0)))
        for day in sorted({*billed, *computed.days})
    ]


def _range(label: str, bounds: Sequence[Fraction | int], billed: Fraction) -> Range:
    return Range(label=label, least=Fraction(min(bounds)), most=Fraction(max(bounds)), billed=billed)


def _meters(month: str, until: date, computed: _Computed, rows: Sequence[BilledDay]) -> list[Meter]:
    by_kind: dict[str, list[BilledDay]] = defaultdict(list)
    for row in rows:
        by_kind[_kind_of(row)].append(row)
    made = [_meter("Messaging operations", "operations", computed.units, computed.cost, by_kind[OPERATIONS])]
    for kind, (label, unit, _) in OTHER_METERS.items():
        charges = Charge.objects.filter(invoice__month=month, kind=kind)
        # The base is billed by the hour: for the current month, count the days so far.
        share = Fraction(until.day, Month.parse(month).days) if kind == "base" else Fraction(1)
        quantity = sum((Fraction(each.quantity) for each in charges), Fraction(0)) * share
        cost = sum((Fraction(each.exact) for each in charges), Fraction(0)) * share
        if quantity or cost or by_kind[kind]:
            made.append(_meter(label, unit, [quantity], cost, by_kind[kind]))
    return made + [
        _meter(name, "units", [0], Fraction(0), [row for row in by_kind[""] if row.meter == name])
        for name in sorted({row.meter for row in by_kind[""]})
    ]


def _meter(
    label: str, unit: str, quantities: Sequence[Fraction | int], computed: Fraction, rows: Sequence[BilledDay]
) -> Meter:
    billed = sum((Fraction(row.quantity) for row in rows), Fraction(0))
    cost = sum((Fraction(row.cost) for row in rows), Fraction(0))
    money = replace(_range(label, [computed], cost), tolerance=CENT)
    return Meter(quantity=_range(label, quantities, billed), cost=money, unit=unit)


def _elsewhere(rows: Iterable[BilledDay]) -> list[tuple[str, str, Fraction, Fraction]]:
    sums: dict[tuple[str, str], list[Fraction]] = defaultdict(lambda: [Fraction(0), Fraction(0)])
    for row in rows:
        sums[row.namespace, row.meter][0] += Fraction(row.quantity)
        sums[row.namespace, row.meter][1] += Fraction(row.cost)
    found = [(namespace, meter, quantity, cost) for (namespace, meter), (quantity, cost) in sums.items()]
    return sorted(found, key=lambda one: (-one[3], *one[:2]))
