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


def largest_remainder(total: int, shares: Mapping[Key, Fraction], parts: int = 1) -> dict[Key, int]:
    """Whole parts of `total`, one per share and each within one of it; ties go by key, so reruns agree.

    A share of 1 is as many `parts`. The shares are not negative and sum to `total`, give or take the one rounding of
    `total` itself.
    """
    # In whole numbers: a report has hundreds of thousands of rows. Remainders that differ do so by more than one bit in
    # so many, so that their order is that of the fractions.
    bits = 2 * max((share.denominator for share in shares.values()), default=1).bit_length()
    whole: dict[Key, int] = {}
    by_remainder: list[tuple[int, Key]] = []
    for key, share in shares.items():
        denominator = share.denominator
        whole[key], rest = divmod(share.numerator * parts, denominator)
        by_remainder.append((-((rest << bits) // denominator), key))
    missing = total - sum(whole.values())
    if not 0 <= missing <= len(whole):
        raise ValueError(f"shares that sum to {float(sum(shares.values()) * parts)} cannot make up {total}")
    if missing:
        by_remainder.sort()
    for _, key in by_remainder[:missing]:
        whole[key] += 1
    return whole
