"""What the figures of a month mean: what failover added, what idle syphons cost, how it was the month before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from django.db.models import QuerySet, Sum

from dashboard.ladder import Step, charge, ladder_of
from dashboard.models import Charge, Invoice, Outage
from dashboard.money import cents

# The syphon's send stands for the send that would have gone to the primary in the first place.
EXTRA_KINDS = ("send_backlog", "ping", "syphon_receive", "syphon_receive_empty", "syphon_settle")
IDLE_KIND = "syphon_receive_empty"
POLLS_A_DAY = 4 * 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """Operations that some kinds added to the month, and what the month costs more for them. Cents."""

    operations: int
    cents: int
    rate: Fraction

    @property
    def per_million(self) -> Fraction:
        """The average price they were charged at, by the million."""
        return self.rate * 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """Empty polls of syphons. `pollers`: how many queues × hosts that is, polling all month, rounded."""

    added: Added
    pollers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The month before: its total, and by how much this one differs. Cents; `percent` is None from nothing."""

    month: str
    total: int
    difference: int
    percent: int | None


def added_by(invoices: Sequence[Invoice], kinds: Sequence[str]) -> Added:
    """What the month costs more because of these kinds: its charge, less what it were without their operations."""
    operations, money = 0, Fraction(0)
    for invoice in invoices:
        ladder = ladder_of(invoice.run.details.get("prices", []))
        extra = _sum(invoice.charges.filter(kind__in=kinds), "billing_units")
        operations += extra
        money += _more(ladder, invoice.units, extra)
    return Added(operations=operations, cents=cents(money), rate=money / operations if operations else Fraction(0))


def _more(ladder: Sequence[Step], total: int, extra: int) -> Fraction:
    return charge(ladder, total) - charge(ladder, total - extra)


def idle(invoices: Sequence[Invoice], days: int) -> Idle:
    """What syphons cost that found nothing."""
    added = added_by(invoices, (IDLE_KIND,))
    return Idle(added=added, pollers=round(added.operations / (POLLS_A_DAY * days)))


@dataclass(frozen=True, slots=True, kw_only=True)
class OutageCost:
    """An outage, the operations made only because of it, and what the month costs more for them."""

    outage: Outage
    operations: int
    cents: int


def outage_costs(month: str, rule: str, pair: str, invoices: Sequence[Invoice]) -> list[OutageCost]:
    """The month's outages, the newest first; each priced as the last operations of its billing scope's month."""
    found = Outage.objects.filter(month=month)
    scopes = {
        name: invoice
        for invoice in invoices
        for name in invoice.charges.exclude(pair="").values_list("pair", flat=True).distinct()
    }
    return [_cost(outage, rule, scopes.get(outage.pair)) for outage in (found.filter(pair=pair) if pair else found)]


def _cost(outage: Outage, rule: str, invoice: Invoice | None) -> OutageCost:
    extra = int(outage.extra.get(rule, 0))
    if invoice is None:
        return OutageCost(outage=outage, operations=extra, cents=0)
    ladder = ladder_of(invoice.run.details.get("prices", []))
    return OutageCost(outage=outage, operations=extra, cents=cents(_more(ladder, invoice.units, extra)))


def change(month: str, rule: str, pair: str, total: int) -> Change | None:
    """How the month differs from the one before; None where that one was not computed."""
    before = previous(month)
    charges = Charge.objects.filter(invoice__month=before, invoice__rule=rule)
    if pair:
        charges = charges.filter(pair=pair)
    if not charges.exists():
        return None
    known = _sum(charges, "cents")
    percent = round(100 * (total - known) / known) if known else None
    return Change(month=before, total=known, difference=total - known, percent=percent)


def _sum(charges: QuerySet[Charge], column: str) -> int:
    return int(charges.aggregate(sum=Sum(column))["sum"] or 0)


def previous(month: str) -> str:
    """The month before: 2026-01 → 2025-12."""
    year, number = map(int, month.split("-"))
    return f"{year - (number == 1):04d}-{(number - 2) % 12 + 1:02d}"
