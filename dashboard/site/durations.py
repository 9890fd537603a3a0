"""Durations in words, the same on pages, in messages and in files."""

from datetime import timedelta
from itertools import pairwise

DAY, A_YEAR = timedelta(days=1), timedelta(days=365)
SIZES = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"), (1, "s"))


def lasting(span: timedelta) -> str:
    """4.2 s, 3 min 5 s, 2 h 10 min, 3 d 4 h; with a minus sign if it is negative."""
    total = span.total_seconds()
    if total <= -1:
        return f"−{lasting(-span)}"
    if total < 10:
        return f"{max(round(total, 1), 0):.2g}\N{NO-BREAK SPACE}s"
    whole = round(total)
    (unit, name), (smaller, small_name) = next(pair for pair in pairwise(SIZES) if whole >= pair[0][0])
    rest = whole % unit // smaller
    parts = [f"{whole // unit:,}\N{NO-BREAK SPACE}{name}", f"{rest}\N{NO-BREAK SPACE}{small_name}" if rest else ""]
    return " ".join(filter(None, parts))


def roughly(span: timedelta) -> str:
    """about 3 min 5 s, about 63 d, or more than a year: of a time that is expected."""
    if span > A_YEAR:
        return "more than a year"
    return f"about {round(span / DAY)}\N{NO-BREAK SPACE}d" if span > 3 * DAY else f"about {lasting(span)}"
