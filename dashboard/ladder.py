"""Graduated prices as the control plane needs them: a tier's price applies to the units inside it. Exact."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

OPERATIONS_METER = "Standard Messaging Operations"
BASIC_METER = "Basic Messaging Operations"
MULTIPLES = {"K": 1_000, "M": 1_000_000, "B": 1_000_000_000}


@dataclass(frozen=True, slots=True)
class Step:
    """From `start` operations a month on, one costs `price`."""

    start: int
    price: Fraction


def ladder_of(rows: Iterable[Mapping[str, str]]) -> list[Step]:
    """The operations' ladder among the price rows a run of the pipeline used."""
    return [_step(row) for row in rows if row["meter"] == OPERATIONS_METER]


def _step(row: Mapping[str, str]) -> Step:
    unit = row["unit"].strip().upper()
    size = int(unit.rstrip("KMB") or 1) * MULTIPLES.get(unit[-1:], 1)
    return Step(int(Decimal(row["from"]) * size), Fraction(row["price"]) / size)


def charge(ladder: Sequence[Step], units: int) -> Fraction:
    """What that many operations of a month cost."""
    ends = [*(step.start for step in ladder[1:]), units]
    pairs = zip(ladder, ends, strict=False)
    return sum((step.price * max(0, min(units, end) - step.start) for step, end in pairs), Fraction(0))


def rate(ladder: Sequence[Step], units: int) -> Fraction:
    """What the next operation costs once that many are used."""
    return next((step.price for step in reversed(ladder) if step.start <= units), Fraction(0))
