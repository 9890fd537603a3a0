"""Graduated prices: each tier's price applies only to the units inside it (docs/pricing.md, section 6).

The one implementation of graduated prices. It needs the standard library only, so that the control plane uses it too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from math import lcm
from operator import mul

from pipeline.errors import PriceError

BASE = "Standard Base Unit"
OPERATIONS = "Standard Messaging Operations"
CONNECTIONS = "Standard Brokered Connection"
BASIC_OPERATIONS = "Basic Messaging Operations"
PREMIUM_UNIT = "Premium Messaging Unit"
MOST_UNITS = 2**62
MULTIPLES = {"": 1, "K": 1_000, "M": 1_000_000, "B": 1_000_000_000}


@dataclass(frozen=True, slots=True)
class Tier:
    """Units from `start` up to the next tier's start cost `price` each, in the list's currency."""

    start: int
    price: Fraction


def unit_size(unit: str) -> int:
    """How many operations, or GB, a unit of measure is: `1M` → 1,000,000, `1 GB` → 1. Raises PriceError."""
    match = re.fullmatch(r"(\d{1,18})\s*(?:([KMB]?)|GB)", unit.strip(), re.IGNORECASE)
    if match is None or int(match[1]) == 0:
        raise PriceError(f"the unit of measure “{unit}” is not known.")
    return int(match[1]) * MULTIPLES[(match[2] or "").upper()]


def tier(minimum: Decimal, unit: str, price: Decimal) -> Tier:
    """The tier of a price row: from `minimum` × `unit` on, one `unit` costs `price`. Raises PriceError."""
    size = unit_size(unit)
    start = minimum * size
    if start != start.to_integral_value() or start < 0:
        raise PriceError(f"a tier starts at {minimum} × {unit}, which is not a whole number of units.")
    if start > MOST_UNITS:
        raise PriceError(f"a tier starts at {minimum} × {unit}: that is more than anything costs.")
    return Tier(int(start), Fraction(price) / size)


@dataclass(frozen=True, slots=True)
class Price:
    """The graduated price of one meter on a bill: its tiers from 0 on, and the units of the month so far (`used`)."""

    tiers: tuple[Tier, ...]
    used: Fraction | int = 0

    def __post_init__(self) -> None:
        starts = self.starts
        if not starts or starts[0] != 0:
            raise PriceError("the lowest tier of a meter must start at 0.")
        if list(starts) != sorted(set(starts)):
            raise PriceError("two tiers of one meter start at the same number of units.")

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, str]], meter: str) -> Price | None:
        """The price of a meter in the price rows that a run stores; None if it has no row. Raises PriceError."""
        of_meter = (row for row in rows if row["meter"] == meter)
        found = tuple(tier(Decimal(row["from"]), row["unit"], Decimal(row["price"])) for row in of_meter)
        return cls(found) if found else None

    def after(self, used: Fraction | int) -> Price:
        """The same price on a bill with this many units."""
        return replace(self, used=used)

    @property
    def starts(self) -> tuple[int, ...]:
        return tuple(tier.start for tier in self.tiers)

    @property
    def rate(self) -> Fraction:
        """The price of the next unit."""
        return next(tier.price for tier in reversed(self.tiers) if tier.start <= self.used)

    def charge(self, units: Fraction | int) -> Fraction:
        """The price of this many units as all of a month; exact."""
        return self.price_of(self.spread(0, units))

    def extra(self, units: Fraction | int) -> Fraction:
        """What this many further units add to the bill; exact."""
        return self.price_of(self.spread(self.used, units))

    def last(self, units: Fraction | int) -> Fraction:
        """What the bill would be less without the last of its units; exact."""
        counted = min(units, self.used)
        return self.price_of(self.spread(self.used - counted, counted))

    def spread(self, before: Fraction | int, units: Fraction | int) -> tuple[Fraction, ...]:
        """How many of `units`, used after `before` others, fall into each tier."""
        ends = (*self.starts[1:], None)
        top = before + units
        return tuple(
            Fraction(max(0, (top if end is None else min(top, end)) - max(before, start)))
            for start, end in zip(self.starts, ends, strict=True)
        )

    def price_of(self, units_by_tier: Sequence[Fraction | int]) -> Fraction:
        """What units already sorted into the tiers cost; exact."""
        pairs = zip(self.tiers, units_by_tier, strict=True)
        return sum((tier.price * units for tier, units in pairs), Fraction(0))


FREE = Price((Tier(0, Fraction(0)),))


@dataclass(frozen=True, slots=True)
class UnitPrices:
    """The exact price of a unit in each place of `tiers`: `numerators` over one `denominator`, so that of each row only
    whole numbers are multiplied and added.
    """

    numerators: tuple[int, ...]
    denominator: int

    @classmethod
    def of(cls, prices: Sequence[Fraction]) -> UnitPrices:
        denominator = lcm(*(price.denominator for price in prices))
        return cls(tuple(price.numerator * (denominator // price.denominator) for price in prices), denominator)

    def price_of(self, units: Sequence[int]) -> Fraction:
        """The exact price of units in their places."""
        if len(units) != len(self.numerators):
            raise ValueError(f"{len(units)} places of units, and {len(self.numerators)} prices")
        return Fraction(sum(map(mul, self.numerators, units)), self.denominator)
