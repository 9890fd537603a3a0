"""The price tiers of a stored run, by meter.

The run stores the price rows that the pipeline used; `pipeline.price_tiers`, which priced the month, interprets them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction

from pipeline.price_tiers import PriceTiers, Tier, tier, unit_size

__all__ = ["Tier", "charge", "ladder_of", "rate", "spread", "unit_size"]

OPERATIONS_METER = "Standard Messaging Operations"
BASIC_METER = "Basic Messaging Operations"
CONNECTIONS_METER = "Standard Brokered Connection"
BANDWIDTH_METER = "Intra Continent Data Transfer Out"


def ladder_of(rows: Iterable[Mapping[str, str]], meter: str = OPERATIONS_METER) -> list[Tier]:
    """The meter's tiers in the price rows of a run; empty if it has none."""
    return [tier(Decimal(row["from"]), row["unit"], Decimal(row["price"])) for row in rows if row["meter"] == meter]


def charge(tiers: Sequence[Tier], units: int | Fraction) -> Fraction:
    """The price of this number of operations (or connections) in a month; 0 without tiers."""
    return PriceTiers(tuple(tiers)).charge(units) if tiers else Fraction(0)


def spread(tiers: Sequence[Tier], units: Fraction) -> Sequence[Fraction]:
    """How much of this usage of a month is in each tier; empty without tiers."""
    return PriceTiers(tuple(tiers)).spread(0, units) if tiers else ()


def rate(tiers: Sequence[Tier], units: int) -> Fraction:
    """The price of the next operation after this number of operations; 0 without tiers."""
    return PriceTiers(tuple(tiers)).rate_at(units) if tiers else Fraction(0)
