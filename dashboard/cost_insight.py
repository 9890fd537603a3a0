"""What the figures of a month mean: what failover added, what idle syphons cost, how it was the month before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from django.db.models import QuerySet, Sum

from dashboard.ladder import charge, ladder_of
from dashboard.models import Charge, Invoice, Outage, Pair
from dashboard.money import cents

# The syphon's send stands for the send that would have gone to the primary in the first place.
EXTRA_KINDS = ("send_backlog", "ping", "syphon_receive", "syphon_receive_empty", "syphon_settle")
IDLE_KIND = "syphon_receive_empty"
POLLS_A_DAY = 4 * 24
STAGES = ("ping", "send_backlog", "syphon_receive", "syphon_settle", "syphon_send")


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
    """Empty polls of syphons. `pollers`: how many queues × hosts that is, polling all month, rounded.

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


def added_by(invoices: Sequence[Invoice], kinds: Sequence[str]) -> Added:
    """What the month costs more because of these kinds: its charge, less what it were without their operations."""
    operations, money = 0, Fraction(0)
    for invoice in invoices:
        found = invoice.charges.filter(kind__in=kinds)
        beside = found.filter(namespace__in=_beside_the_ladder(invoice))
        extra = _sum(found, "billing_units")
        operations += extra
        money += more(invoice, extra - _sum(beside, "billing_units"))
        money += sum((Fraction(charge.exact) for charge in beside), Fraction(0))
    return Added(operations=operations, cents=cents(money), rate=money / operations if operations else Fraction(0))


def more(invoice: Invoice, extra: int) -> Fraction:
    """What some of a scope's Standard operations cost as the last ones of its month."""
    ladder = ladder_of(invoice.run.details.get("prices", []))
    total = invoice.units - sum(invoice.tiers[len(ladder) :])
    return charge(ladder, total) - charge(ladder, total - min(extra, total))


def _beside_the_ladder(invoice: Invoice) -> list[str]:
    """The Basic and Premium namespaces, whose operations have prices of their own."""
    tiers: dict[str, str] = invoice.run.details.get("tiers", {})
    return [namespace for namespace, tier in tiers.items() if tier != "standard"]


def bandwidth_of(invoices: Sequence[Invoice], pair: str = "") -> Fraction:
    """What the bytes cost that crossed regions; all of them did because of failovers."""
    found = Charge.objects.filter(invoice__in=invoices, kind="bandwidth")
    return sum((Fraction(row.exact) for row in (found.filter(pair=pair) if pair else found)), Fraction(0))


def idle(invoices: Sequence[Invoice], days: int, pair: str = "") -> Idle:
    """What syphons cost that found nothing."""
    added = added_by(invoices, (IDLE_KIND,))
    pollers = round(added.operations / (POLLS_A_DAY * days))
    known = Pair.objects.filter(name=pair) if pair else Pair.objects.all()
    hosts = max(1, round(pollers / max(1, int(known.aggregate(sum=Sum("backlog_queue_count"))["sum"] or 0))))
    return Idle(
        added=added,
        pollers=pollers,
        hosts=hosts,
        saved_by_half=_saved(invoices, Fraction(1, 2)),
        saved_by_one_host=_saved(invoices, Fraction(hosts - 1, hosts)) if hosts > 1 else None,
    )


def _saved(invoices: Sequence[Invoice], share: Fraction) -> Fraction:
    """What a share of the empty polls cost, as the last operations of the month."""
    polls = {invoice: _sum(invoice.charges.filter(kind=IDLE_KIND), "billing_units") for invoice in invoices}
    return sum((more(invoice, int(count * share)) for invoice, count in polls.items()), Fraction(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class OutageCost:
    """An outage, the operations made only because of it, and what the month costs more for them.

    `stages`: (what was done, billable operations); `egress`: what its bytes cost that crossed regions, exact.
    """

    outage: Outage
    operations: int
    cents: int
    stages: Sequence[tuple[str, int]] = ()
    egress: Fraction = Fraction(0)
    rate: Fraction = Fraction(0)


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
        return OutageCost(outage=outage, operations=extra, cents=0, stages=_stages(outage))
    operations, egress = more(invoice, extra), _egress(outage, invoice)
    return OutageCost(
        outage=outage,
        operations=extra,
        cents=cents(operations + egress),
        stages=_stages(outage),
        egress=egress,
        rate=operations / extra * 1_000_000 if extra else Fraction(0),
    )


def _stages(outage: Outage) -> list[tuple[str, int]]:
    return [(kind, int(outage.units[kind])) for kind in STAGES if outage.units.get(kind)]


def _egress(outage: Outage, invoice: Invoice) -> Fraction:
    """The outage's part of what its pair paid for bytes that crossed regions."""
    found = list(invoice.charges.filter(kind="bandwidth", pair=outage.pair))
    quantity = sum((Fraction(row.quantity) for row in found), Fraction(0))
    if not quantity:
        return Fraction(0)
    paid = sum((Fraction(row.exact) for row in found), Fraction(0))
    return paid / quantity * Fraction(int(outage.extra.get("crossing_bytes", 0)), 10**9)


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
