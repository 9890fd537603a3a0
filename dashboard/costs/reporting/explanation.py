"""How the charge of a row was calculated: the counting rule, the price rows with tier and count, and the amounts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from dashboard.costs.rules import is_billed
from dashboard.models import Charge
from dashboard.site.money import unrounded
from pipeline.price_tiers import BASE, BASIC_OPERATIONS, CONNECTIONS, OPERATIONS, PREMIUM_UNIT, Price, unit_size

PriceRow = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A count in one tier of a price row. `amount`: its exact price; None if it has no price of its own."""

    count: str
    meter: str = ""
    tier: str = ""
    price: str = ""
    amount: Fraction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The calculation of a row's charge: the rule as a sentence, then steps, whose amounts sum to the exact charge.

    If the row has a share of a charge of its billing scope, `scope_steps` are the calculation of that charge, for
    `scope_count`, all that the scope used.
    """

    rule: str
    steps: Sequence[Step] = ()
    scope_count: str = ""
    scope_steps: Sequence[Step] = ()


def explain(charge: Charge, details: Mapping[str, Any], scope_connections: Fraction = Fraction(0)) -> Explanation:
    """Explain a row by what the run stored; the rule and the allocation come from its invoice.

    `scope_connections`: the average connections of all namespaces of the row's billing scope.
    """
    prices: Sequence[PriceRow] = details.get("prices", [])
    match charge.kind:
        case "base":
            return _base(charge, prices)
        case "connections":
            return _connections(charge, details, scope_connections)
        case "bandwidth":
            rule = "The bytes that left a region, at the price in PAIRS_FILE or of Data Transfer Out in the price list."
            return Explanation(rule=rule, steps=[_transferred(charge)])
        case _:
            return _operations(charge, prices)


def _transferred(charge: Charge) -> Step:
    """The row's bytes at the average price of all that the pair transferred, as the run stores no other."""
    size, amount = Fraction(charge.quantity), Fraction(charge.exact)
    price = f"{unrounded(amount / size)} {charge.invoice.currency} per GB on average" if size else ""
    return Step(count=f"{_plain(charge.quantity)} GB", price=price, amount=amount)


def _operations(charge: Charge, prices: Sequence[PriceRow]) -> Explanation:
    if not is_billed(charge.kind, charge.invoice.rule):
        return Explanation(rule="Under the rule “published” a settlement is not billed.")
    rule = f"Under the rule “{charge.invoice.rule}”, 64 KB units of each message, at least one per call."
    ladder = [row for row in prices if row["meter"] == OPERATIONS]
    rest = [row for row in prices if row["meter"] == BASIC_OPERATIONS]
    beside = list(_beside(charge, len(ladder), rest))
    if charge.invoice.allocation == "time":
        return Explanation(rule=rule, steps=[*_by_tier(ladder, charge.tiers), *beside])
    rule += " The month's charge for all operations is shared in proportion to units, including those in the free tier."
    own, whole = (sum(tiers[: len(ladder)]) for tiers in (charge.tiers, charge.invoice.tiers))
    if not own or not whole:
        return Explanation(rule=rule, steps=beside)
    scope_steps = _by_tier(ladder, charge.invoice.tiers)
    return Explanation(
        rule=rule,
        scope_count=f"{_number(whole)} operations",
        scope_steps=scope_steps,
        steps=[_share(scope_steps, own, whole), *beside],
    )


def _by_tier(ladder: Sequence[PriceRow], tiers: Sequence[int]) -> list[Step]:
    return [_priced(row, units) for row, units in zip(ladder, tiers, strict=False) if units]


def _beside(charge: Charge, steps: int, basic: Sequence[PriceRow]) -> Iterator[Step]:
    """The operations that are not in the Standard price tiers, of which there are this number."""
    yield from _by_tier(basic, charge.tiers[steps:])
    if len(charge.tiers) > steps + 1 and charge.tiers[steps + 1]:
        yield Step(count=_number(charge.tiers[steps + 1]), meter="Premium", price="included")


def _priced(row: PriceRow, units: int) -> Step:
    return Step(
        count=_number(units),
        meter=row["meter"],
        tier=f"from {_plain(row['from'])} × {row['unit']}",
        price=f"{_plain(row['price'])} {row['currency']} per {row['unit']}",
        amount=Fraction(row["price"]) / unit_size(row["unit"]) * units,
    )


def _share(scope_steps: Sequence[Step], own: int | Fraction, whole: int | Fraction) -> Step:
    """The row's share of the scope's charge, written so that it can be calculated again."""
    charge = sum((step.amount or Fraction(0) for step in scope_steps), Fraction(0))
    return Step(count=f"{unrounded(charge)} × {_number(own)} / {_number(whole)}", amount=charge * Fraction(own) / whole)


def _base(charge: Charge, prices: Sequence[PriceRow]) -> Explanation:
    is_premium = not charge.namespace.startswith("$")
    meter = PREMIUM_UNIT if is_premium else BASE
    rule = (
        "Messaging units × the hours of the calendar month."
        if is_premium
        else "Once per billing scope with usage: all hours of the calendar month, even before its end."
    )
    quantity = Fraction(charge.quantity)
    steps = [
        Step(
            count=f"{_plain(charge.quantity)} hours",
            meter=meter,
            price=f"{_plain(row['price'])} {row['currency']} per {row['unit']}",
            amount=Fraction(row["price"]) * quantity,
        )
        for row in prices
        if row["meter"] == meter and "month" not in row["unit"].lower()
    ]
    return Explanation(rule=rule, steps=steps)


def _connections(charge: Charge, details: Mapping[str, Any], whole: Fraction) -> Explanation:
    hours = details.get("hours_in_month")
    rule = (
        f"The sum of the hourly peaks, divided by the {f'{hours:,} ' if hours else ''}hours of the month. If processes "
        "reported their own peaks, the peak of an hour is their sum, an upper bound. The namespaces of a scope share "
        "its charge in proportion to their averages."
    )
    own = Fraction(charge.quantity)
    rows = [row for row in details.get("prices", []) if row["meter"] == CONNECTIONS]
    price = Price.of(rows, CONNECTIONS)
    if not own or not whole or price is None:
        return Explanation(rule=rule)
    scope_steps = [
        Step(
            count=_number(connections),
            meter=row["meter"],
            tier=f"from {_plain(row['from'])}",
            price=f"{_plain(row['price'])} {row['currency']}",
            amount=tier.price * connections,
        )
        for row, tier, connections in zip(rows, price.tiers, price.spread(0, whole), strict=True)
        if connections
    ]
    return Explanation(
        rule=rule,
        scope_count=f"{_number(whole)} connections on average",
        scope_steps=scope_steps,
        steps=[_share(scope_steps, own, whole)],
    )


def _number(units: int | Fraction) -> str:
    """A count, or an average with up to three decimals."""
    return f"{Decimal(round(units * 1000)).scaleb(-3).normalize():,f}"


def _plain(text: str) -> str:
    """A decimal without trailing zeros."""
    return f"{Decimal(text).normalize():f}"
