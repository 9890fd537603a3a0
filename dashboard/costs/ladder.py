"""Graduated prices as the control plane needs them: a tier's price applies to the units inside it. Exact."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

OPERATIONS_METER = "Standard Messaging Operations"
BASIC_METER = "Basic Messaging Operations"
CONNECTIONS_METER = "Standard Brokered Connection"
BANDWIDTH_METER = "Intra Continent Data Transfer Out"
MULTIPLES = {"K": 1_000, "M": 1_000_000, "B": 1_000_000_000}


@dataclass(frozen=True, slots=True)
class Step:
    """From `start` operations a month on, one costs `price`."""

    start: int
    price: Fraction


def ladder_of(rows: Iterable[Mapping[str, str]], meter: str = OPERATIONS_METER) -> list[Step]:
    """The meter's ladder among the price rows a run of the pipeline used."""
    return [_step(row) for row in rows if row["meter"] == meter]


def unit_size(text: str) -> int:
    """How many operations, or GB, a unit of measure is: `1M` → 1,000,000, `1 GB` → 1."""
    unit = text.upper().replace("GB", "").strip()
    return int(unit.rstrip("KMB") or 1) * MULTIPLES.get(unit[-1:], 1)


def _step(row: Mapping[str, str]) -> Step:
    size = unit_size(row["unit"])
    return Step(int(Decimal(row["from"]) * size), Fraction(row["price"]) / size)


def charge(ladder: Sequence[Step], units: int | Fraction) -> Fraction:
    """What that many operations (or connections, on their ladder) of a month cost."""
    ends = [*(step.start for step in ladder[1:]), units]
    pairs = zip(ladder, ends, strict=False)
    return sum((step.price * max(0, min(units, end) - step.start) for step, end in pairs), Fraction(0))


def rate(ladder: Sequence[Step], units: int) -> Fraction:
    """What the next operation costs once that many are used."""
    return next((step.price for step in reversed(ladder) if step.start <= units), Fraction(0))
