"""The cost of each outage of a month: its extra operations, on the bill of the namespace where they were made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dashboard.costs.prices import Bill
from dashboard.fleet.state.outages import AWAY
from dashboard.models import Charge, FailoverEvent, Invoice, Outage

STAGES = ("ping", "syphon_receive_empty", "send_backlog", "syphon_receive", "syphon_settle", "syphon_send")
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
class Later:
    """What was metered for an outage since the run: billable units by kind, extra operations, and their price, egress
    included, as the next ones on the bills.
    """

    units: Mapping[str, int]
    operations: int
    money: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class OutageCost:
    """An outage as it is now, and how much its operations increase the cost of the month: one figure, as metered.

    `parts`: what the run priced, by billing scope; `is_priced`: the run knew all of it. `event_id`: of its incident.
    """

    outage: Outage
    units: Mapping[str, int]
    parts: Sequence[Part] = ()
    later: Later | None = None
    is_priced: bool = True
    event_id: str = ""

    @property
    def stages(self) -> list[tuple[str, int]]:
        """(What was done, billable operations)."""
        more = self.later.units if self.later else {}
        counts = {kind: self.units.get(kind, 0) + more.get(kind, 0) for kind in STAGES}
        return [(kind, count) for kind, count in counts.items() if count]

    @property
    def operations(self) -> int:
        """The operations that had not been made without the outage."""
        return sum(part.operations for part in self.parts) + (self.later.operations if self.later else 0)

    @property
    def money(self) -> Fraction:
        """The exact cost."""
        return sum((part.money for part in self.parts), self.later.money if self.later else Fraction(0))

    @property
    def egress(self) -> Fraction:
        """The exact price of its bytes that crossed regions, as far as the run priced them."""
        return sum((part.egress for part in self.parts), Fraction(0))

    @property
    def rate(self) -> Fraction:
        """The average price per million of its operations that the run priced."""
        priced = sum(part.operations for part in self.parts)
        charge = sum((part.charge for part in self.parts), Fraction(0))
        return charge / priced * 1_000_000 if priced else Fraction(0)


def outage_costs(month: str, pair: str, invoices: Sequence[Invoice]) -> list[OutageCost]:
    """The outages of the month, newest first; each priced as the last operations of the month in its billing scopes."""
    found = Outage.objects.filter(month=month)
    bills, egress = {invoice.scope: Bill(invoice) for invoice in invoices}, _egress_rates(invoices)
    rule = invoices[0].rule if invoices else ""
    return [
        OutageCost(
            outage=outage,
            units=outage.units,
            parts=[
                _part(rule, scope, bills[scope], at, egress.get((scope, outage.pair), Fraction(0)))
                for scope, at in _places(outage)
                if scope in bills
            ],
        )
        for outage in (found.filter(pair=pair) if pair else found)
    ]


def with_incidents(costs: Sequence[OutageCost]) -> list[OutageCost]:
    """The same with the events that began them, whose incidents have pages."""
    events = FailoverEvent.objects.filter(kind__in=AWAY, time__in={each.outage.started_at for each in costs})
    known = {(event.pair, event.entity, event.time): event.event_id for event in events}
    keys = ((each, (each.outage.pair, each.outage.entity, each.outage.started_at)) for each in costs)
    return [replace(each, event_id=known.get(key, "")) for each, key in keys]


def _places(outage: Outage) -> list[tuple[str, list[Place]]]:
    """The outage's operations by billing scope."""
    by_scope: dict[str, list[Place]] = defaultdict(list)
    for place in outage.extra["places"]:
        by_scope[place["scope"]].append(place)
    return sorted(by_scope.items())


def _egress_rates(invoices: Sequence[Invoice]) -> Mapping[tuple[str, str], Fraction]:
    """By billing scope and pair, what it paid for a GB that crossed regions."""
    sums: dict[tuple[str, str], list[Fraction]] = defaultdict(lambda: [Fraction(0), Fraction(0)])
    found = Charge.objects.filter(invoice__in=invoices, kind="bandwidth")
    for scope, pair, quantity, exact in found.values_list("invoice__scope", "pair", "quantity", "exact"):
        known = sums[scope, pair]
        sums[scope, pair] = [known[0] + Fraction(quantity), known[1] + Fraction(exact)]
    return {key: money / quantity for key, (quantity, money) in sums.items() if quantity}


def _part(rule: str, scope: str, bill: Bill, places: Sequence[Place], egress_rate: Fraction) -> Part:
    on_the_ladder, beside = 0, Fraction(0)
    for place in places:
        operations = place[rule]
        if bill.has_flat_rate(place["namespace"]):
            beside += bill.flat_rate(place["namespace"]) * operations
        else:
            on_the_ladder += operations
    return Part(
        scope=scope,
        operations=sum(place[rule] for place in places),
        charge=bill.operations.last(on_the_ladder) + beside,
        egress=egress_rate * Fraction(sum(place["crossing_bytes"] for place in places), 10**9),
    )
