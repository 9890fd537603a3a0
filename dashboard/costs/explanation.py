"""How the charge of a row was calculated: the counting rule, and the price rows with tier and count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from dashboard.costs.price_tiers import BASIC_METER, CONNECTIONS_METER, OPERATIONS_METER, unit_size
from dashboard.models import Charge
from dashboard.models.charge import PUBLISHED
from pairing.telemetry.metering import SETTLEMENT_KINDS

BASE_METER, PREMIUM_METER = "Standard Base Unit", "Premium Messaging Unit"
PriceRow = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A count in one tier of a price row. `amount`: its exact price; None if the tier is shared with other rows."""

    count: str
    meter: str
    tier: str
    price: str
    amount: Fraction | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The calculation of a row's charge: the rule as a sentence, then steps, whose amounts sum to the exact charge."""

    rule: str
    steps: Sequence[Step] = ()


def explain(charge: Charge, details: Mapping[str, Any]) -> Explanation:
    """Explain a row by what the run stored; the rule and the allocation come from its invoice."""
    prices: Sequence[PriceRow] = details.get("prices", [])
    match charge.kind:
        case "base":
            return _base(charge, prices)
        case "connections":
            return _connections(charge, prices)
        case "bandwidth":
            rule = "The bytes that left a region, at the price in PAIRS_FILE or of Data Transfer Out in the price list."
            return Explanation(
                rule=rule, steps=[Step(count=f"{_plain(charge.quantity)} GB", meter="", tier="", price="")]
            )
        case _:
            return _operations(charge, prices)


def _operations(charge: Charge, prices: Sequence[PriceRow]) -> Explanation:
    if charge.kind in SETTLEMENT_KINDS and charge.invoice.rule == PUBLISHED:
        return Explanation(rule="Under the rule “published” a settlement is not billed.")
    rule = f"Under the rule “{charge.invoice.rule}”, 64 KB units of each message, at least one per call."
    ladder = [row for row in prices if row["meter"] == OPERATIONS_METER]
    rest = [row for row in prices if row["meter"] == BASIC_METER]
    if charge.invoice.allocation != "time":
        rule += (
            " The month's charge for all operations is shared in proportion to units, including those in the free tier."
        )
    return Explanation(rule=rule, steps=list(_steps(charge, ladder, rest)))


def _steps(charge: Charge, ladder: Sequence[PriceRow], basic: Sequence[PriceRow]) -> Iterator[Step]:
    own = charge.invoice.allocation == "time"
    for row, units in zip(ladder, charge.tiers, strict=False):
        if units:
            yield _priced(row, units, own)
    for row, units in zip(basic, charge.tiers[len(ladder) :], strict=False):
        if units:
            yield _priced(row, units, True)
    if len(charge.tiers) > len(ladder) + 1 and charge.tiers[len(ladder) + 1]:
        yield Step(count=_number(charge.tiers[len(ladder) + 1]), meter="Premium", tier="", price="included")


def _priced(row: PriceRow, units: int, own: bool) -> Step:
    amount = Fraction(row["price"]) / unit_size(row["unit"]) * units
    return Step(
        count=_number(units),
        meter=row["meter"],
        tier=f"from {_plain(row['from'])} × {row['unit']}",
        price=f"{_plain(row['price'])} {row['currency']} per {row['unit']}",
        amount=amount if own else None,
    )


def _base(charge: Charge, prices: Sequence[PriceRow]) -> Explanation:
    is_premium = not charge.namespace.startswith("$")
    meter = PREMIUM_METER if is_premium else BASE_METER
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
            tier="",
            price=f"{_plain(row['price'])} {row['currency']} per {row['unit']}",
            amount=Fraction(row["price"]) * quantity,
        )
        for row in prices
        if row["meter"] == meter and "month" not in row["unit"].lower()
    ]
    return Explanation(rule=rule, steps=steps)


def _connections(charge: Charge, prices: Sequence[PriceRow]) -> Explanation:
    rule = (
        "The sum of the hourly peaks, divided by the hours of the month. If processes reported their own peaks, the "
        "peak of an hour is their sum, an upper bound. The namespaces of a scope share its tiers by their peaks."
    )
    steps = [
        Step(
            count=f"{_plain(charge.quantity)} on average",
            meter=row["meter"],
            tier=f"from {_plain(row['from'])}",
            price=f"{_plain(row['price'])} {row['currency']}",
        )
        for row in prices
        if row["meter"] == CONNECTIONS_METER and Decimal(row["from"]) <= Decimal(charge.quantity)
    ]
    return Explanation(rule=rule, steps=steps if Fraction(charge.quantity) else [])


def _number(units: int) -> str:
    return f"{units:,}"


def _plain(text: str) -> str:
    """A decimal without trailing zeros."""
    return f"{Decimal(text).normalize():f}"
