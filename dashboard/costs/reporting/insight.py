"""What the charges of a month mean: the cost of failover, the change from the month before, and its expected end."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from django.db.models import Sum

from dashboard.costs.budgets import ALL, came_to
from dashboard.costs.prices import Bill, operations_price
from dashboard.models import Charge, DailyCharge, Invoice
from dashboard.models.visibility import all_pairs, visible_here
from dashboard.site.money import cents
from pipeline.months import Month

# A send by the syphon replaces the send that would have gone to the primary without the outage.
IDLE_KIND = "syphon_receive_empty"
PART_OF = {
    "send_backlog": "outages",
    "syphon_receive": "outages",
    "syphon_settle": "outages",
    IDLE_KIND: "idle",
    "ping": "pings",
}
EXTRA_KINDS = tuple(PART_OF)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failover:
    """By how much failover made the month more expensive: one sum of parts (outages, idle syphons, pings) and of the
    bytes that crossed regions, all of which did because of it. Exact.

    `rates`: by invoice, the average price of such an operation.
    """

    operations: Mapping[str, int]
    parts: Mapping[str, Fraction]
    bandwidth: Fraction
    rates: Mapping[int, Fraction]

    @property
    def total(self) -> int:
        """The number of operations."""
        return sum(self.operations.values())

    @property
    def money(self) -> Fraction:
        return sum(self.parts.values(), self.bandwidth)

    @property
    def cents(self) -> int:
        """The sum, rounded once."""
        return cents(self.money)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The total of the month before, and the difference to it, in cents; `percent` is None if that total is 0.

    `days`: of the operations of so many days of both; 0: of all of both.
    """

    month: str
    days: int
    total: int
    difference: int
    percent: int | None


def failover(invoices: Sequence[Invoice], pair: str = "") -> Failover:
    """The additional cost of failover in a month, of one pair or of all; the pairs' sums are the sum of all.

    Standard operations are priced as the last ones of the month, of all pairs whoever asks.
    """
    bills = {invoice.pk: Bill(invoice) for invoice in invoices}
    which = {"invoice__in": invoices, "kind__in": EXTRA_KINDS}
    visible = visible_here()
    seen = None if visible is None else set(visible.values_list("name", flat=True))
    with all_pairs():
        found = Charge.objects.filter(**which).order_by().values_list("invoice", "pair", "namespace", "kind")
        rows = list(found.annotate(units=Sum("billing_units")))
    on_the_ladder = Counter[int]()
    for key, _, namespace, _, units in rows:
        on_the_ladder[key] += 0 if bills[key].has_flat_rate(namespace) else units
    rates = {key: bills[key].operations.last(units) / units for key, units in on_the_ladder.items() if units}
    operations, every = Counter[str](), Counter[int]()
    parts, money = defaultdict[str, Fraction](Fraction), defaultdict[int, Fraction](Fraction)
    for key, of, namespace, kind, units in rows:
        is_flat = bills[key].has_flat_rate(namespace)
        price = units * (bills[key].flat_rate(namespace) if is_flat else rates.get(key, Fraction(0)))
        every[key], money[key] = every[key] + units, money[key] + price
        if pair in ("", of) and (seen is None or of in seen):
            operations[PART_OF[kind]] += units
            parts[PART_OF[kind]] += price
    rates = {key: money[key] / units for key, units in every.items() if units}
    return Failover(operations=operations, parts=parts, bandwidth=_bandwidth_of(invoices, pair), rates=rates)


def _bandwidth_of(invoices: Sequence[Invoice], pair: str) -> Fraction:
    found = Charge.objects.filter(invoice__in=invoices, kind="bandwidth", **({"pair": pair} if pair else {}))
    return sum(map(Fraction, found.values_list("exact", flat=True)), Fraction(0))


def change(month: str, pair: str, total: int, currency: str, days: int = 0) -> Change | None:
    """The difference to the month before, or to the operations of its first days; None if it was not computed, or in
    another currency.
    """
    before = str(Month.parse(month).previous)
    known = _of_days(before, days) if days else came_to(before, pair or ALL)
    with all_pairs():
        is_other = Invoice.objects.filter(month=before).exclude(currency=currency).exists()
    if known is None or is_other:
        return None
    percent = round(100 * (total - known) / known) if known else None
    return Change(month=before, days=days, total=known, difference=total - known, percent=percent)


def _of_days(month: str, days: int) -> int | None:
    rows = DailyCharge.objects.filter(invoice__month=month, date__day__lte=days).values_list("exact", flat=True)
    exact = [Fraction(row) for row in rows]
    return cents(sum(exact, Fraction(0))) if exact else None


def expected(invoices: Sequence[Invoice]) -> int | None:
    """The invoices at the end of the month, in cents, if all goes on as until their run; None once it is over.

    Base charges are of the whole month already; operations go on in their tiers.
    """
    ran_at, of = invoices[0].run.as_of, Month.parse(invoices[0].month)
    if not of.start < ran_at < of.end:
        return None
    rest = Fraction((of.end - ran_at) / (ran_at - of.start))
    bases = defaultdict[int, Fraction](Fraction)
    for key, base in Charge.objects.filter(invoice__in=invoices, kind="base").values_list("invoice", "exact"):
        bases[key] += Fraction(base)
    total = Fraction(0)
    for invoice in invoices:
        price, exact = operations_price(invoice), Fraction(invoice.exact)
        beside = exact - bases[invoice.pk] - price.charge(price.used)
        total += exact + price.extra(round(price.used * rest)) + beside * rest
    return cents(total)
