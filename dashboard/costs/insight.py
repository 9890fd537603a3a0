"""What the figures of a month mean: what failover added, what idle syphons cost, how it was the month before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from django.db.models import QuerySet, Sum

from dashboard.costs.budgets import ALL, came_to
from dashboard.costs.price_tiers import charge, ladder_of
from dashboard.models import Charge, Invoice, Pair
from dashboard.site.money import cents

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
    """Empty polls of syphons. `pollers`: how many queues × hosts that is, polling all the time, rounded.

    `saved_by_half`: what the month had cost less with half the queues, or half the hosts; `saved_by_one_host`: with a
    single host, where there are several; None where one is enough already. Exact.
    """

    added: Added
    pollers: int
    hosts: int
    saved_by_half: Fraction
    saved_by_one_host: Fraction | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The month before: its total, and by how much this one differs. Cents; `percent` is None from nothing."""

    month: str
    total: int
    difference: int
    percent: int | None


def added_by(invoices: Sequence[Invoice], kinds: Sequence[str], pair: str = "") -> Added:
    """What the month costs more because of these kinds: its charge, less what it were without their operations.

    Of one pair, or of all.
    """
    operations, money = 0, Fraction(0)
    for invoice in invoices:
        found = _of(invoice, pair).filter(kind__in=kinds)
        beside = found.filter(namespace__in=beside_the_ladder(invoice))
        extra = _sum(found, "billing_units")
        operations += extra
        money += more(invoice, extra - _sum(beside, "billing_units"))
        money += sum((Fraction(charge.exact) for charge in beside), Fraction(0))
    return Added(operations=operations, cents=cents(money), rate=money / operations if operations else Fraction(0))


def _of(invoice: Invoice, pair: str) -> QuerySet[Charge]:
    return invoice.charges.filter(pair=pair) if pair else invoice.charges.all()


def more(invoice: Invoice, extra: int) -> Fraction:
    """What some of a scope's Standard operations cost as the last ones of its month."""
    ladder = ladder_of(invoice.run.details.get("prices", []))
    total = standard_units(invoice)
    return charge(ladder, total) - charge(ladder, total - min(extra, total))


def standard_units(invoice: Invoice) -> int:
    """A scope's operations without those of Basic and Premium namespaces, which climb no ladder."""
    steps = len(ladder_of(invoice.run.details.get("prices", [])))
    return int(invoice.units - sum(invoice.tiers[steps:]))


def beside_the_ladder(invoice: Invoice) -> list[str]:
    """The Basic and Premium namespaces, whose operations have prices of their own."""
    tiers: dict[str, str] = invoice.run.details.get("tiers", {})
    return [namespace for namespace, tier in tiers.items() if tier != "standard"]


def bandwidth_of(invoices: Sequence[Invoice], pair: str = "") -> Fraction:
    """What the bytes cost that crossed regions; all of them did because of failovers."""
    found = Charge.objects.filter(invoice__in=invoices, kind="bandwidth")
    return sum((Fraction(row.exact) for row in (found.filter(pair=pair) if pair else found)), Fraction(0))


def idle(invoices: Sequence[Invoice], days: float, pair: str = "") -> Idle:
    """What syphons cost that found nothing, in as many days."""
    added = added_by(invoices, (IDLE_KIND,), pair)
    pollers = round(added.operations / (POLLS_A_DAY * days))
    known = Pair.objects.filter(name=pair) if pair else Pair.objects.all()
    hosts = max(1, round(pollers / max(1, int(known.aggregate(sum=Sum("backlog_queue_count"))["sum"] or 0))))
    return Idle(
        added=added,
        pollers=pollers,
        hosts=hosts,
        saved_by_half=_saved(invoices, Fraction(1, 2), pair),
        saved_by_one_host=_saved(invoices, Fraction(hosts - 1, hosts), pair) if hosts > 1 else None,
    )


def _saved(invoices: Sequence[Invoice], share: Fraction, pair: str) -> Fraction:
    """What a share of the empty polls cost: on the ladder as the last operations of the month."""
    money = Fraction(0)
    for invoice in invoices:
        polls = _of(invoice, pair).filter(kind=IDLE_KIND)
        beside = polls.filter(namespace__in=beside_the_ladder(invoice))
        on_the_ladder = _sum(polls, "billing_units") - _sum(beside, "billing_units")
        money += more(invoice, int(on_the_ladder * share))
        money += share * sum((Fraction(row.exact) for row in beside), Fraction(0))
    return money


def change(month: str, rule: str, pair: str, total: int) -> Change | None:
    """How the month differs from the one before; None where that one was not computed."""
    before = previous(month)
    known = came_to(before, pair or ALL, rule)
    if known is None:
        return None
    percent = round(100 * (total - known) / known) if known else None
    return Change(month=before, total=known, difference=total - known, percent=percent)


def _sum(charges: QuerySet[Charge], column: str) -> int:
    return int(charges.aggregate(sum=Sum(column))["sum"] or 0)


def previous(month: str) -> str:
    """The month before: 2026-01 → 2025-12."""
    year, number = map(int, month.split("-"))
    return f"{year - (number == 1):04d}-{(number - 2) % 12 + 1:02d}"
