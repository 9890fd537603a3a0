"""The cost of each outage of a month: its extra operations, on the bill of the namespace where they were made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
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


class Bill:
    """The prices of one invoice, each looked up once: a month can have a thousand outages."""

    def __init__(self, invoice: Invoice) -> None:
        self._invoice = invoice
        self._elsewhere = frozenset(beside_the_ladder(invoice))
        self.flat_rate = cache(self._flat_rate)
        """By namespace without tiers (Basic, Premium), the price of an operation; those of Premium are free."""
        self.egress_rate = cache(self._egress_rate)
        """By pair, what it paid on this bill for a GB that crossed regions; 0 if it paid for none."""
        self.has_pair = cache(self._has_pair)
        """By pair, whether it is charged for anything."""

    def has_flat_rate(self, namespace: str) -> bool:
        """Whether it is a Basic or Premium namespace."""
        return namespace in self._elsewhere

    def on_the_ladder(self, units: int) -> Fraction:
        """The price of some of its Standard operations as the last ones of the month."""
        return more(self._invoice, units)

    def _flat_rate(self, namespace: str) -> Fraction:
        rows = list(self._invoice.charges.filter(namespace=namespace).exclude(kind__in=NO_OPERATIONS))
        units = sum(row.billing_units for row in rows)
        return sum((Fraction(row.exact) for row in rows), Fraction(0)) / units if units else Fraction(0)

    def _egress_rate(self, pair: str) -> Fraction:
        rows = list(self._invoice.charges.filter(kind="bandwidth", pair=pair))
        quantity = sum((Fraction(row.quantity) for row in rows), Fraction(0))
        return sum((Fraction(row.exact) for row in rows), Fraction(0)) / quantity if quantity else Fraction(0)

    def _has_pair(self, pair: str) -> bool:
        return self._invoice.charges.filter(pair=pair).exists()


def outage_costs(month: str, rule: str, pair: str, invoices: Sequence[Invoice]) -> list[OutageCost]:
    """The outages of the month, newest first; each priced as the last operations of the month in its billing scopes."""
    found = Outage.objects.filter(month=month)
    bills = {invoice.scope: Bill(invoice) for invoice in invoices}
    return [
        OutageCost(
            outage=outage,
            operations=int(outage.extra.get(rule, 0)),
            stages=[(kind, int(outage.units[kind])) for kind in STAGES if outage.units.get(kind)],
            parts=[
                _part(outage.pair, rule, scope, bills[scope], at)
                for scope, at in _places(outage, bills)
                if scope in bills
            ],
        )
        for outage in (found.filter(pair=pair) if pair else found)
    ]


def _places(outage: Outage, bills: Mapping[str, Bill]) -> list[tuple[str, list[Place]]]:
    """The outage's operations by billing scope; in months computed by earlier versions, the scope with its pair."""
    if "places" not in outage.extra:
        return [(scope, [outage.extra]) for scope, bill in bills.items() if bill.has_pair(outage.pair)][:1]
    by_scope: dict[str, list[Place]] = defaultdict(list)
    for place in outage.extra["places"]:
        by_scope[place["scope"]].append(place)
    return sorted(by_scope.items())


def _part(pair: str, rule: str, scope: str, bill: Bill, places: Sequence[Place]) -> Part:
    on_the_ladder, beside = 0, Fraction(0)
    for place in places:
        operations = int(place.get(rule, 0))
        if bill.has_flat_rate(place.get("namespace", "")):
            beside += bill.flat_rate(place["namespace"]) * operations
        else:
            on_the_ladder += operations
    return Part(
        scope=scope,
        operations=sum(int(place.get(rule, 0)) for place in places),
        charge=bill.on_the_ladder(on_the_ladder) + beside,
        egress=bill.egress_rate(pair) * Fraction(sum(int(place.get("crossing_bytes", 0)) for place in places), 10**9),
    )
