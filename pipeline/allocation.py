"""Cents that add up: an invoice is rounded once, and its lines share the cents by largest remainder."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import floor
from typing import TypeVar

Key = TypeVar("Key", bound=tuple[str, ...])


def round_half_up(amount: Fraction) -> int:
    """The nearest whole number, a half going up; for amounts that are not negative."""
    return floor(amount + Fraction(1, 2))


def largest_remainder(total: int, shares: Mapping[Key, Fraction]) -> dict[Key, int]:
    """Whole parts of `total`, one per share and each within one of it; ties go by key, so reruns agree.

    The shares are not negative and sum to `total`, give or take the one rounding of `total` itself.
    """
    parts = {key: floor(share) for key, share in shares.items()}
    missing = total - sum(parts.values())
    if not 0 <= missing <= len(parts):
        raise ValueError(f"shares that sum to {float(sum(shares.values()))} cannot make up {total}")
    by_remainder = sorted(shares, key=lambda key: (parts[key] - shares[key], key))
    for key in by_remainder[:missing]:
        parts[key] += 1
    return parts
