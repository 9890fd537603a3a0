"""The cost of each outage of a month: its extra operations, on the bill of the namespace where they were made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dashboard.costs.insight import beside_the_ladder, more
from dashboard.models import Invoice, Outage
from dashboard.site.money import cents

STAGES = ("ping", "syphon_receive_empty", "send_backlog", "syphon_receive", "syphon_settle", "syphon_send")
NO_OPERATIONS = ("base", "connections", "bandwidth")
Place = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What an outage added to the bill of one scope: its extra operations, their price and that of the egress.

    Money is exact.
    """

    scope: str
    operations: int
    charge: Fraction
    egress: Fraction

    @property
    def money(self) -> Fraction:
        return self.charge + self.egress


@dataclass(frozen=True, slots=True, kw_only=True)
class OutageCost:
    """An outage, the operations that it caused, and how much they increase the cost of the month.

    `stages`: (what was done, billable operations); `parts`: by billing scope, if it has charges.
    """

    outage: Outage
    operations: int
    stages: Sequence[tuple[str, int]] = ()
    parts: Sequence[Part] = ()

    @property
    def money(self) -> Fraction:
        """The exact cost."""
        return sum((part.money for part in self.parts), Fraction(0))

    @property
    def cents(self) -> int:
        return cents(self.money)

    @property
    def egress(self) -> Fraction:
        """The exact price of its bytes that crossed regions."""
        return sum((part.egress for part in self.parts), Fraction(0))

    @property
    def rate(self) -> Fraction:
        """The average price per million of its operations."""
        priced = sum(part.operations for part in self.parts)
        charge = sum((part.charge for part in self.parts), Fraction(0))
        return charge / priced * 1_000_000 if priced else Fraction(0)


def outage_costs(month: str, rule: str, pair: str, invoices: Sequence[Invoice]) -> list[OutageCost]:
    """The outages of the month, newest first; each priced as the last operations of the month in its billing scopes."""
    found = Outage.objects.filter(month=month)
    bills = {invoice.scope: invoice for invoice in invoices}
    return [
        OutageCost(
            outage=outage,
            operations=int(outage.extra.get(rule, 0)),
            stages=[(kind, int(outage.units[kind])) for kind in STAGES if outage.units.get(kind)],
            parts=[_part(outage, rule, bills[scope], at) for scope, at in _places(outage, invoices) if scope in bills],
        )
        for outage in (found.filter(pair=pair) if pair else found)
    ]


def _places(outage: Outage, invoices: Sequence[Invoice]) -> list[tuple[str, list[Place]]]:
    """The outage's operations by billing scope; in months computed by earlier versions, the scope with its pair."""
    if "places" not in outage.extra:
        return [(each.scope, [outage.extra]) for each in invoices if each.charges.filter(pair=outage.pair).exists()][:1]
    by_scope: dict[str, list[Place]] = defaultdict(list)
    for place in outage.extra["places"]:
        by_scope[place["scope"]].append(place)
    return sorted(by_scope.items())


def _part(outage: Outage, rule: str, invoice: Invoice, places: Sequence[Place]) -> Part:
    elsewhere = set(beside_the_ladder(invoice))
    on_the_ladder = sum(int(place.get(rule, 0)) for place in places if place.get("namespace") not in elsewhere)
    flat = [place for place in places if place.get("namespace") in elsewhere]
    beside = sum((flat_rate(invoice, place["namespace"]) * int(place.get(rule, 0)) for place in flat), Fraction(0))
    return Part(
        scope=invoice.scope,
        operations=sum(int(place.get(rule, 0)) for place in places),
        charge=more(invoice, on_the_ladder) + beside,
        egress=_egress(outage.pair, invoice, sum(int(place.get("crossing_bytes", 0)) for place in places)),
    )


def flat_rate(invoice: Invoice, namespace: str) -> Fraction:
    """The price of an operation in a Basic or Premium namespace, which has no tiers; Premium operations are free."""
    rows = list(invoice.charges.filter(namespace=namespace).exclude(kind__in=NO_OPERATIONS))
    units = sum(row.billing_units for row in rows)
    return sum((Fraction(row.exact) for row in rows), Fraction(0)) / units if units else Fraction(0)


def _egress(pair: str, invoice: Invoice, size: int) -> Fraction:
    """The price of these bytes, as a share of what the pair paid on this bill for region crossings."""
    found = list(invoice.charges.filter(kind="bandwidth", pair=pair))
    quantity = sum((Fraction(row.quantity) for row in found), Fraction(0))
    if not quantity:
        return Fraction(0)
    paid = sum((Fraction(row.exact) for row in found), Fraction(0))
    return paid / quantity * Fraction(size, 10**9)
