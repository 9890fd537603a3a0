"""The report of a drill: times, drained messages, their order, and the cost. Pure except for prices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from statistics import median
from typing import Any

from dashboard.costs.forecasts.current_month import IN_THE_SECONDARY, traffic
from dashboard.costs.forecasts.tariffs import Bills, tariff
from dashboard.costs.prices import prices_of
from dashboard.costs.rules import is_billed, rule_of
from dashboard.costs.runs.jobs import JobFailed
from dashboard.drills.course import Course
from dashboard.models.charge import PUBLISHED

PREPARING = 2
"""Management operations of a drill in the primary; those in the secondary read the backlog."""


def report(course: Course, began_at: datetime, ended_at: datetime) -> dict[str, Any]:
    """The report without prices."""
    numbers = Counter(one.number for one in course.arrivals)
    doubled = sorted(number for number, times in numbers.items() if times > 1)
    return {
        "lasted_s": _between(began_at, ended_at),
        "messages": {
            "planned": course.total,
            "accepted": course.sent,
            "diverted": course.diverted,
            "seen_in_backlog": course.seen_in_backlog,
            "received": len(numbers),
            "lost": course.lost,
            "duplicates": doubled,
            "resent": [number for number in doubled if number in course.resent],
            "in_order": is_in_order(course),
        },
        "times_s": {
            "until_the_worker_knew": _between(course.forced_at, course.known_at),
            "until_the_first_diverted_send": _between(course.forced_at, course.diverted_at),
            "failed_over": _between(course.forced_at, course.healed_at),
            "until_healed_after_release": _between(course.released_at, course.healed_at),
            "until_all_was_home": _between(course.healed_at, course.home_at),
        },
        "propagation": propagation(course),
        "operations": dict(sorted(operations(course).items())),
    }


def propagation(course: Course) -> dict[str, Any] | None:
    """How soon live processes adopted the forced failover; None if none was forced."""
    if not course.forced_at:
        return None
    reported = list(course.heard.values())
    return {
        "processes": len(course.fleet),
        "reported": len(reported),
        "p50_s": round(median(reported), 3) if reported else None,
        "max_s": max(reported, default=None),
    }


def operations(course: Course) -> dict[str, int]:
    """Operations by kind, of the worker and of the syphon."""
    home = course.diverted if course.home_at else 0
    moved = {"syphon_receive": home, "syphon_send": home, "syphon_settle": home}
    reported = Counter({**course.operations}) + Counter(moved)
    if course.released_at and course.forced_at:
        reported["ping"] += 1
    return dict(reported)


def is_in_order(course: Course) -> dict[str, bool | None]:
    """Whether each third arrived in order, None if nothing arrived; thirds can arrive in any order."""
    thirds = {
        "before": (1, course.first_part),
        "during": (course.first_part + 1, course.second_part),
        "after": (course.second_part + 1, course.total),
    }
    return {name: _is_rising(course, *bounds) for name, bounds in thirds.items()}


def _is_rising(course: Course, first: int, last: int) -> bool | None:
    found: dict[int, int] = {}
    for one in sorted(course.arrivals, key=lambda one: one.sequence):
        if first <= one.number <= last:
            found.setdefault(one.number, one.sequence)
    return list(found) == sorted(found) if found else None


def cost(pair: str, reported: Mapping[str, int], now: datetime) -> dict[str, Any] | None:
    """The marginal cost of the operations this month; None if the price list cannot be read."""
    month = f"{now:%Y-%m}"
    try:
        known = prices_of(month)
        its = tariff(pair, known, month)
    except (JobFailed, OSError):
        return None
    return priced(its.bills(traffic(pair, now).used), reported, rule_of(month)) | {
        "currency": known.currency,
        "is_sample": known.is_sample,
    }


def priced(bills: Bills, reported: Mapping[str, int], rule: str = PUBLISHED) -> dict[str, Any]:
    """The billable operations and their marginal cost. Pure."""
    billed = {kind: count for kind, count in reported.items() if is_billed(kind, rule)}
    looks = max(0, billed.get("manage", 0) - PREPARING)
    away = looks + sum(count for kind, count in billed.items() if kind in IN_THE_SECONDARY)
    every = sum(billed.values())
    amount = bills.extra(every - away, away)
    exact = Decimal(amount.numerator) / Decimal(amount.denominator)
    return {"billable_operations": every, "amount": money(exact)}


def money(exact: Decimal) -> str:
    """An amount with two to eight decimals, enough to show a nonzero value."""
    whole, _, rest = f"{exact:.8f}".partition(".")
    return f"{whole}.{rest.rstrip('0').ljust(2, '0')}"


def _between(start: datetime | None, end: datetime | None) -> float | None:
    return None if start is None or end is None else round((end - start).total_seconds(), 3)
