"""Cents that add up: an invoice is rounded once, and its lines share the cents by largest remainder."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import floor, lcm
from typing import TypeVar

Key = TypeVar("Key", bound=tuple[str, ...])


def round_half_up(amount: Fraction) -> int:
    """The nearest whole number, a half going up; for amounts that are not negative."""
    return floor(amount + Fraction(1, 2))


def largest_remainder(total: int, shares: Mapping[Key, Fraction], parts: int = 1) -> dict[Key, int]:
    """Whole parts of `total`, one per share and each within one of it, in their order; ties go by key, so reruns agree.

    A share of 1 is as many `parts`. The shares are not negative and sum to `total`, give or take the one rounding of
    `total` itself.
    """
    # In whole numbers over one denominator: a report has hundreds of thousands of rows, and few denominators.
    ratios = [share.as_integer_ratio() for share in shares.values()]
    common = lcm(*{denominator for _, denominator in ratios})
    divided = [divmod(numerator * parts * (common // denominator), common) for numerator, denominator in ratios]
    missing = total - sum(whole for whole, _ in divided)
    if not 0 <= missing <= len(divided):
        raise ValueError(f"shares that sum to {float(sum(shares.values()) * parts)} cannot make up {total}")
    least = sorted(rest for _, rest in divided)[-missing] if missing else common
    made = {key: whole + (rest > least) for key, (whole, rest) in zip(shares, divided, strict=True)}
    tied = sorted(key for key, (_, rest) in zip(shares, divided, strict=True) if rest == least)
    for key in tied[: total - sum(made.values())]:
        made[key] += 1
    return made
