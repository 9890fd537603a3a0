"""Graduated prices: each tier's price applies only to the units inside it (docs/pricing.md, section 6)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from pipeline.errors import PriceError


@dataclass(frozen=True, slots=True)
class Tier:
    """Units from `start` up to the next tier's start cost `price` each, in the list's currency."""

    start: int
    price: Fraction


@dataclass(frozen=True, slots=True)
class Ladder:
    """The tiers of one meter, the lowest first; the first starts at 0."""

    tiers: tuple[Tier, ...]

    def __post_init__(self) -> None:
        starts = self.starts
        if not starts or starts[0] != 0:
            raise PriceError("the lowest tier of a meter must start at 0.")
        if list(starts) != sorted(set(starts)):
            raise PriceError("two tiers of one meter start at the same number of units.")

    @property
    def starts(self) -> tuple[int, ...]:
        return tuple(tier.start for tier in self.tiers)

    def spread(self, before: Fraction | int, units: Fraction | int) -> tuple[Fraction, ...]:
        """How many of `units`, used after `before` others, fall into each tier."""
        ends = (*self.starts[1:], None)
        top = before + units
        return tuple(
            Fraction(max(0, (top if end is None else min(top, end)) - max(before, start)))
            for start, end in zip(self.starts, ends, strict=True)
        )

    def charge(self, units: Fraction | int, before: Fraction | int = 0) -> Fraction:
        """What `units` cost when `before` others were used already; exact."""
        return self.price_of(self.spread(before, units))

    def price_of(self, units_by_tier: Sequence[Fraction | int]) -> Fraction:
        """What units already sorted into the tiers cost; exact."""
        pairs = zip(self.tiers, units_by_tier, strict=True)
        return sum((tier.price * units for tier, units in pairs), Fraction(0))

    def included(self, units_by_tier: Sequence[Fraction | int]) -> Fraction:
        """How many of the sorted units have the price 0."""
        pairs = zip(self.tiers, units_by_tier, strict=True)
        return sum((Fraction(units) for tier, units in pairs if tier.price == 0), Fraction(0))

    def rate_at(self, units: int) -> Fraction:
        """The price of the next unit once `units` are used."""
        return next(tier.price for tier in reversed(self.tiers) if tier.start <= units)
