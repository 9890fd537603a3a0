"""Formats of money."""

from fractions import Fraction
from math import floor


def money(cents: int) -> str:
    """1234 → “12.34”."""
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100}.{abs(cents) % 100:02d}"


def cents(amount: Fraction) -> int:
    """An exact amount in whole cents, rounded half up."""
    return floor(amount * 100 + Fraction(1, 2))


def exact_text(amount: Fraction) -> str:
    """An exact amount as a decimal text with twelve decimals, rounded half up."""
    scaled = floor(amount * 10**12 + Fraction(1, 2))
    sign = "-" if scaled < 0 else ""
    return f"{sign}{abs(scaled) // 10**12}.{abs(scaled) % 10**12:012d}"
