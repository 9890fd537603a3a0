"""What the charges of a month mean: the cost of failover, of idle syphons, and the change from the month before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from django.db.models import QuerySet, Sum

from dashboard.costs.budgets import ALL, came_to
from dashboard.costs.prices import beside_the_ladder, operations_price
from dashboard.models import Charge, Invoice, Pair
from dashboard.models.visibility import all_pairs
from dashboard.site.money import cents
from pipeline.months import Month

# A send by the syphon replaces the send that would have gone to the primary without the outage.
EXTRA_KINDS = ("send_backlog", "ping", "syphon_receive", "syphon_receive_empty", "syphon_settle")
IDLE_KIND = "syphon_receive_empty"
POLLS_A_DAY = 4 * 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """Operations of some kinds, and how much they increase the cost of the month, in cents."""

    operations: int
    cents: int
    rate: Fraction

    @property
    def money(self) -> Fraction:
        """The exact increase."""
        return self.rate * self.operations

    @property
    def per_million(self) -> Fraction:
        """Their average price per million."""
        return self.rate * 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """Empty polls of syphons. `pollers`: the number of queues × hosts that poll continuously, rounded.

    `saved_by_half`: the saving with half of the queues or hosts; `saved_by_one_host`: with a single host, None if there
    is only one. Exact.
    """

    added: Added
    pollers: int
    hosts: int
    saved_by_half: Fraction
    saved_by_one_host: Fraction | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The total of the month before, and the difference to it, in cents; `percent` is None if that total is 0."""

    month: str
    total: int
    difference: int
    percent: int | None


def added_by(invoices: Sequence[Invoice], kinds: Sequence[str], pair: str = "") -> Added:
    """The additional cost of these kinds of operations: the month's charge minus its charge without them.

    For one pair, or for all.
    """
    operations = sum(_units(_of(invoice, kinds, pair)) for invoice in invoices)
    money = _price(invoices, kinds, pair)
    return Added(operations=operations, cents=cents(money), rate=money / operations if operations else Fraction(0))


def _of(invoice: Invoice, kinds: Sequence[str], pair: str) -> QuerySet[Charge]:
    found = invoice.charges.filter(kind__in=kinds)
    return found.filter(pair=pair) if pair else found


def _price(invoices: Sequence[Invoice], kinds: Sequence[str], pair: str, share: Fraction = Fraction(1)) -> Fraction:
    """The price of a share of these operations as the last ones of the month."""
    money = Fraction(0)
    for invoice in invoices:
        found = _of(invoice, kinds, pair)
        beside = found.filter(namespace__in=beside_the_ladder(invoice))
        money += more(invoice, int((_units(found) - _units(beside)) * share))
        money += share * sum((Fraction(row.exact) for row in beside), Fraction(0))
    return money


def more(invoice: Invoice, extra: int) -> Fraction:
    """The price of some of a scope's Standard operations as the last ones of its month."""
    return operations_price(invoice).last(extra)


def bandwidth_of(invoices: Sequence[Invoice], pair: str = "") -> Fraction:
    """The cost of bytes that crossed regions; all of them did because of failovers."""
    found = Charge.objects.filter(invoice__in=invoices, kind="bandwidth")
    return sum((Fraction(row.exact) for row in (found.filter(pair=pair) if pair else found)), Fraction(0))


def idle(invoices: Sequence[Invoice], days: float, pair: str = "") -> Idle:
    """The cost of empty polls of syphons in this number of days."""
    added = added_by(invoices, (IDLE_KIND,), pair)
    pollers = round(added.operations / (POLLS_A_DAY * days))
    known = Pair.objects.filter(name=pair) if pair else Pair.objects.all()
    hosts = max(1, round(pollers / max(1, int(known.aggregate(sum=Sum("backlog_queue_count"))["sum"] or 0))))
    return Idle(
        added=added,
        pollers=pollers,
        hosts=hosts,
        saved_by_half=_price(invoices, (IDLE_KIND,), pair, Fraction(1, 2)),
        saved_by_one_host=_price(invoices, (IDLE_KIND,), pair, Fraction(hosts - 1, hosts)) if hosts > 1 else None,
    )


def change(month: str, pair: str, total: int, currency: str) -> Change | None:
    """The difference to the month before; None if that month was not computed, or in another currency."""
    before = str(Month.parse(month).previous)
    known = came_to(before, pair or ALL)
    with all_pairs():
        is_other = Invoice.objects.filter(month=before).exclude(currency=currency).exists()
    if known is None or is_other:
        return None
    percent = round(100 * (total - known) / known) if known else None
    return Change(month=before, total=known, difference=total - known, percent=percent)


def _units(charges: QuerySet[Charge]) -> int:
    return int(charges.aggregate(sum=Sum("billing_units"))["sum"] or 0)
