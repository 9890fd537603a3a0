"""Formats of money."""

from fractions import Fraction
from math import floor, log10


def money(cents: int) -> str:
    """123456 → “1,234.56”."""
    sign = "-" if cents < 0 else ""
    return f"{sign}{abs(cents) // 100:,}.{abs(cents) % 100:02d}"


def amount(cents: int) -> str:
    """123456 → “1234.56”: for programs and files."""
    return money(cents).replace(",", "")


def cents(amount: Fraction) -> int:
    """An exact amount in whole cents, rounded half up."""
    return floor(amount * 100 + Fraction(1, 2))


def small_money(amount: Fraction) -> str:
    """Money to be read, in cents; below one “<0.01”: files and the API have the exact amount."""
    return "<0.01" if 0 < amount < Fraction(1, 100) else money(cents(amount))


def unrounded(amount: Fraction) -> str:
    """Money to be calculated with: up to six decimals, 5.60 or 10.770516; below a cent four digits: 0.0000008000"""
    if 0 < abs(amount) < Fraction(1, 100):
        return f"{float(amount):,.{3 - floor(log10(abs(float(amount))))}f}"
    whole, decimals = f"{float(amount):,.6f}".split(".")
    return f"{whole}.{decimals.rstrip('0'):0<2}"


def exact_text(amount: Fraction) -> str:
    """An exact amount as a decimal text with twelve decimals, rounded half up."""
    scaled = floor(amount * 10**12 + Fraction(1, 2))
    sign = "-" if scaled < 0 else ""
    return f"{sign}{abs(scaled) // 10**12}.{abs(scaled) % 10**12:012d}"
